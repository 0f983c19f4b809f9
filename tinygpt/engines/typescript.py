"""What Python says to JavaScript, as TypeScript: core/tab/protocol.pyi's types, and constants that both sides use."""

from __future__ import annotations

import ast
import json
import os
import tempfile
from pathlib import Path

from tinygpt.core.capsule.content import LARGEST_FILE
from tinygpt.core.file.front import PREFIX_BYTES, STEP_BYTES, VERSION
from tinygpt.core.ops import sample
from tinygpt.core.plan.cpu.lowering import DONE_WORD, MAX_THREADS, STOP_WORD, TEAM_WORDS
from tinygpt.disk.files import replace
from tinygpt.kernels.wasm import LARGEST, PAGE, STACK

ROOT = Path(__file__).resolve().parents[2]
GENERATED = ROOT / "web" / "src" / "generated"
PROTOCOL = ROOT / "tinygpt" / "core" / "tab" / "protocol.pyi"
MADE = "// Made by python -m tinygpt.site, see tinygpt/engines/typescript.py.\n"

CONSTANTS: dict[str, int] = {
    "MAX_THREADS": MAX_THREADS,
    "TEAM_WORDS": TEAM_WORDS,  # that threads share,
    "STOP_WORD": STOP_WORD,  # and which of them say that a run is to end,
    "DONE_WORD": DONE_WORD,  # and how often it was run
    "WASM_PAGE": PAGE,
    "WASM_STACK": STACK,
    "LARGEST_MEMORY_32": LARGEST[32],
    "LARGEST_MEMORY_64": LARGEST[64],
    "PREFIX_BYTES": PREFIX_BYTES,
    "STEP_BYTES": STEP_BYTES,
    "FILE_VERSION": VERSION,
    "LARGEST_CAPSULE": LARGEST_FILE,
    "CHOICE_WORDS": sample.CHOICE_WORDS,  # how a byte is to be drawn, and where in it what is
    "CHOICE_SEED": sample.SEED,
    "CHOICE_FIRST": sample.FIRST,
    "CHOICE_TEMPERATURE": sample.TEMPERATURE,
    "CHOICE_TOP_P": sample.TOP_P,
    "CHOICE_TOP_K": sample.TOP_K,
    "CURSOR_WRITTEN": sample.WRITTEN,
    "CURSOR_OVER": sample.OVER,
    "NO_NUMBER": sample.NO_NUMBER,
}

PLAIN = {"int": "number", "float": "number", "str": "string", "bool": "boolean", "Any": "unknown"}
BYTES = "Uint8Array<ArrayBuffer>"
OURS = """/** Text: a T as JSON. */
export type Json<T> = string & { readonly of?: T };
export const parse = <T>(text: Json<T>): T => JSON.parse(text) as T;
export const text = <T>(value: T): Json<T> => JSON.stringify(value) as Json<T>;
"""


def write_generated() -> None:
    """Needed wherever web/src runs, so also by engines that are driven from here."""
    rows = [f"export const {name} = {value};\n" for name, value in CONSTANTS.items()]
    write(GENERATED / "constants.ts", MADE + "".join(rows))
    write(GENERATED / "protocol.ts", MADE + protocol())


def write(path: Path, text: str) -> None:
    """Unless it is there: processes may do so at once."""
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
        file.write(text)
    replace(name, path)


def protocol() -> str:
    source = PROTOCOL.read_text(encoding="utf-8")
    lines = source.splitlines()
    parts = [OURS]
    modules: list[str] = []
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef) and node.name not in ("Json", "Bytes"):
            parts.append(class_text(node, lines))
            if node.name == "Python":
                modules = [row.target.id for row in fields_of(node) if isinstance(row.target, ast.Name)]
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id != "T":
            parts.append(
                f"{above(lines[node.lineno - 1])}export type {node.targets[0].id} = {type_text(node.value)};\n"
            )
    return "\n".join([*parts, f"export const MODULES = {json.dumps(modules)} as const;\n"])


def fields_of(node: ast.ClassDef) -> list[ast.AnnAssign]:
    return [row for row in node.body if isinstance(row, ast.AnnAssign)]


def class_text(node: ast.ClassDef, lines: list[str]) -> str:
    head = above(lines[node.lineno - 1])
    bases = [type_text(base) for base in node.bases]
    if bases == ["NamedTuple"]:
        row = ", ".join(f"{name_of(field)}: {type_text(field.annotation)}" for field in fields_of(node))
        return f"{head}export type {node.name} = [{row}];\n"
    more = "".join(f" extends {base}" for base in bases if base != "TypedDict")
    inside = [field_text(field, lines) for field in fields_of(node)]
    inside += [method_text(row, lines) for row in node.body if isinstance(row, (ast.FunctionDef, ast.AsyncFunctionDef))]
    return f"{head}export interface {node.name}{more} {{\n{''.join(inside)}}}\n"


def name_of(field: ast.AnnAssign) -> str:
    return ast.unparse(field.target)


def field_text(field: ast.AnnAssign, lines: list[str]) -> str:
    kind, optional = field.annotation, ""
    if isinstance(kind, ast.Subscript) and ast.unparse(kind.value) == "NotRequired":
        kind, optional = kind.slice, "?"
    return f"  {name_of(field)}{optional}: {type_text(kind)};{behind(lines[field.lineno - 1])}\n"


def method_text(node: ast.FunctionDef | ast.AsyncFunctionDef, lines: list[str]) -> str:
    given = node.args.args[1:]
    needed = len(given) - len(node.args.defaults)
    row = ", ".join(
        f"{arg.arg}{'?' if i >= needed else ''}: {type_text(arg.annotation)}" for i, arg in enumerate(given)
    )
    answer = "void" if ast.unparse(node.returns or ast.Constant(None)) == "None" else type_text(node.returns)
    if isinstance(node, ast.AsyncFunctionDef):
        answer = f"Promise<{answer}>"
    return f"  {node.name}({row}): {answer};{behind(lines[(node.end_lineno or 1) - 1])}\n"


def behind(line: str) -> str:
    _, mark, comment = line.partition("  # ")
    return f" // {comment}" if mark else ""


def above(line: str) -> str:
    comment = behind(line).removeprefix(" // ")
    return f"/** {comment} */\n" if comment else ""


def type_text(node: ast.expr | None) -> str:
    match node:
        case ast.Constant(value=None):
            return "null"
        case ast.Name(id="Bytes"):
            return BYTES
        case ast.Name(id=name):
            return PLAIN.get(name, name)
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return f"{type_text(left)} | {type_text(right)}"
        case ast.Subscript(value=ast.Name(id="Json"), slice=of):
            return f"Json<{type_text(of)}>"
        case ast.Subscript(value=ast.Name(id="list"), slice=of):
            inner = type_text(of)
            return f"({inner})[]" if " | " in inner else f"{inner}[]"
        case ast.Subscript(value=ast.Name(id="tuple"), slice=ast.Tuple(elts=each)):
            return f"[{', '.join(map(type_text, each))}]"
        case ast.Subscript(value=ast.Name(id="dict"), slice=ast.Tuple(elts=[key, value])):
            return f"Record<{type_text(key)}, {type_text(value)}>"
        case ast.Subscript(value=ast.Name(id="Literal"), slice=values):
            each = values.elts if isinstance(values, ast.Tuple) else [values]
            return " | ".join(json.dumps(ast.literal_eval(value)) for value in each)
    raise ValueError(f"{PROTOCOL.name} has a type that TypeScript is not told of: {ast.unparse(node) if node else ''}")
