"""The tab's copy of core is core without docstrings and comments, line by line."""

import ast

from tinygpt.engines.shipped import PACKAGE, python_files, stripped

DESCRIBED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def code(source: str) -> str:
    """What a program does, and in which lines."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, DESCRIBED) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
        elif isinstance(node, DESCRIBED) and [type(row) for row in node.body] == [ast.Pass]:
            node.body = []
    return "\n".join(f"{getattr(node, 'lineno', 0)} {ast.dump(node)}" for node in ast.walk(tree))


def test_nothing_else_is_left_out():
    files = python_files()
    assert "core/tab/session.py" in files and not any(path.endswith(".pyi") for path in files)
    for path, text in files.items():
        assert code(text) == code((PACKAGE / path).read_text()), path
        assert '"""' not in text and "  # " not in text, path


def test_what_looks_like_a_comment_and_a_body_that_is_only_described():
    source = 'class A:\n    """Two\n    lines."""\n\nx = "  # no"  # yes\n'
    assert stripped(source) == 'class A:\n    pass\n\n\nx = "  # no"\n'
