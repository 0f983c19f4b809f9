"""What MicroPython gets of the package: core and the package's own __init__.py, without docstrings and comments.

Lines stay where they are, so that a traceback's numbers are right.
"""

from __future__ import annotations

import ast
import io
import tokenize
from pathlib import Path

PACKAGE = Path(__file__).parents[1]


def python_files() -> dict[str, str]:
    """By path."""
    paths = [PACKAGE / "__init__.py", *sorted((PACKAGE / "core").rglob("*.py"))]
    return {path.relative_to(PACKAGE).as_posix(): stripped(path.read_text(encoding="utf-8")) for path in paths}


def stripped(source: str) -> str:
    lines = source.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column].rstrip()
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        if ast.get_docstring(node) is not None:
            text = node.body[0]
            lines[text.lineno - 1 : text.end_lineno] = [""] * ((text.end_lineno or 0) - text.lineno + 1)
            if len(node.body) == 1:
                lines[text.lineno - 1] = " " * text.col_offset + "pass"
    return "\n".join(lines).rstrip("\n") + "\n"
