"""Checks what Python and JavaScript really say to each other against core/tab/protocol.pyi."""

import ast
import json
import sys
import types
import typing
from inspect import signature

from tinygpt.engines.typescript import PROTOCOL

# Headers of files: docs/format.md has the rest of them.
OPEN = {"ModelHeader", "RngState", "AdapterDescription"}
module = sys.modules["protocol_described"] = types.ModuleType("protocol_described")
NAMES = vars(module)
exec(compile("from __future__ import annotations\n" + PROTOCOL.read_text(), str(PROTOCOL), "exec"), NAMES)
CLASSES = [node for node in ast.parse(PROTOCOL.read_text()).body if isinstance(node, ast.ClassDef)]
BASES = {node.name: [base for base in map(ast.unparse, node.bases) if base in NAMES] for node in CLASSES}
BASES = {name: [base for base in bases if base not in ("TypedDict", "NamedTuple")] for name, bases in BASES.items()}


def kinds_of(thing):
    return typing.get_type_hints(thing, NAMES, include_extras=True)


def is_object(kind):
    return hasattr(kind, "__total__")


def is_row(kind):
    return hasattr(kind, "_fields")


def is_called(kind):
    return isinstance(kind, type) and kind.__module__ == NAMES["Python"].__module__ and kind not in PLAIN


PLAIN = {kind for kind in NAMES.values() if isinstance(kind, type) and (is_object(kind) or is_row(kind))}
PLAIN |= {NAMES["Json"], NAMES["Bytes"]}
INTERFACES = [kind for kind in NAMES.values() if is_called(kind)]


def every_mark():
    """All that the description has, to be matched by something."""
    marks = set()
    for kind in PLAIN - {NAMES["Json"], NAMES["Bytes"]}:
        marks |= {(kind.__name__, name) for name in kinds_of(kind)}
    for kind in INTERFACES:
        marks |= {(kind.__name__, name) for name in vars(kind) if not name.startswith("_")}
    return marks


def check(value, kind, where):
    """The marks of what it matches; an AssertionError says where it does not."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if kind is typing.Any:
        return set()
    if kind in (None, type(None)):
        assert value is None, f"{where}: {value!r} is not null"
        return set()
    if origin in (typing.Union, types.UnionType):
        return check_any(value, inner, where)
    if origin is typing.Literal:
        assert value in inner, f"{where}: {value!r} is none of {inner}"
        return set()
    if origin is NAMES["Json"]:
        assert isinstance(value, str) and value, f"{where}: {value!r} is not JSON"
        return check(json.loads(value), inner[0], where)
    if origin is list:
        assert isinstance(value, list), f"{where}: {value!r} is not a list"
        return set().union(*(check(each, inner[0], f"{where}[{i}]") for i, each in enumerate(value)))
    if origin is tuple:
        assert isinstance(value, list) and len(value) == len(inner), f"{where}: {value!r} is not {kind}"
        return set().union(*(check(each, inner[i], f"{where}[{i}]") for i, each in enumerate(value)))
    if origin is dict:
        assert isinstance(value, dict), f"{where}: {value!r} is not an object"
        return set().union(*(check(value[key], inner[1], f"{where}.{key}") for key in value))
    if is_row(kind):
        assert isinstance(value, list) and len(value) == len(kind._fields), f"{where}: {value!r} is not a {kind}"
        fields = kinds_of(kind)
        parts = [check(value[i], fields[name], f"{where}.{name}") for i, name in enumerate(kind._fields)]
        return set().union({(kind.__name__, name) for name in fields}, *parts)
    if is_object(kind):
        return check_object(value, kind, where)
    if kind is NAMES["Bytes"] or is_called(kind):
        assert value is not None and not isinstance(value, (str, int, float)), f"{where}: {value!r} is no {kind}"
        return set()
    taken = {float: (int, float), int: int, str: str, bool: bool}[kind]
    assert isinstance(value, taken) and (kind is bool or not isinstance(value, bool)), (
        f"{where}: {value!r} is no {kind}"
    )
    return set()


def check_any(value, kinds, where):
    faults = []
    for kind in kinds:
        try:
            return check(value, kind, where)
        except AssertionError as fault:
            faults.append(str(fault))
    raise AssertionError(f"{where} is nothing that is described: " + "; ".join(faults))


def check_object(value, kind, where):
    assert isinstance(value, dict), f"{where}: {value!r} is not an object"
    marks, fields = set(), kinds_of(kind)
    for name, stated in fields.items():
        optional = typing.get_origin(stated) is typing.NotRequired
        assert name in value or optional, f"{where}: {kind.__name__} has no {name}"
        if name in value:
            marks |= {(kind.__name__, name)}
            marks |= check(value[name], typing.get_args(stated)[0] if optional else stated, f"{where}.{name}")
    more = set(value) - set(fields)
    assert not more or kind.__name__ in OPEN, f"{where}: {kind.__name__} is not described to have {more}"
    for base in BASES[kind.__name__]:
        marks |= {(base, name) for name in kinds_of(NAMES[base]) if name in value}
    return marks


def check_call(kind, method, arguments, answer):
    """Of a call on an interface, with an answer that was awaited."""
    called = getattr(kind, method, None)
    assert called is not None, f"{kind.__name__}.{method} is not described"
    stated = kinds_of(called)
    names = list(signature(called).parameters)[1:]
    assert len(arguments) <= len(names), f"{kind.__name__}.{method} takes {names}"
    owner = next(each for each in kind.__mro__ if method in vars(each))
    marks = {(owner.__name__, method)}
    for name, value in zip(names, arguments, strict=False):
        marks |= check(value, stated[name], f"{kind.__name__}.{method}({name})")
    return marks | check(answer, stated["return"], f"{kind.__name__}.{method}()")


class Checked:
    """An object behind its interface: every call of it is checked, whichever side calls."""

    def __init__(self, target, kind, marks):
        self.target, self.kind, self.marks = target, kind, marks

    def __getattr__(self, name):
        found = getattr(self.target, name)
        if name in kinds_of(self.kind):  # a plain value
            self.marks.update({(self.kind.__name__, name)}, check(found, kinds_of(self.kind)[name], name))
            return found

        def call(*arguments):
            stated = kinds_of(getattr(self.kind, name))
            names = list(signature(getattr(self.kind, name)).parameters)[1:]
            passed = [self.wrapped(value, stated[names[i]]) for i, value in enumerate(arguments)]
            answer = found(*passed)
            if hasattr(answer, "__await__"):
                return self.awaited(name, arguments, answer)
            return self.told(name, arguments, answer)

        return call

    async def awaited(self, name, arguments, answer):
        return self.told(name, arguments, await answer)

    def told(self, name, arguments, answer):
        self.marks.update(check_call(self.kind, name, arguments, answer))
        return self.wrapped(answer, kinds_of(getattr(self.kind, name))["return"])

    def wrapped(self, value, kind):
        return Checked(value, kind, self.marks) if is_called(kind) and not isinstance(value, Checked) else value


def check_recorded(recorded):
    """Of [path, arguments, answer] as tests/wasm records them: the marks."""
    marks = set()
    for path, arguments, answer in recorded:
        kind, *rest = [NAMES["Python"], *path]
        for part in rest[:-1]:
            if isinstance(part, list):  # [method, argument's number], or null: its answer
                method, number = part
                stated = kinds_of(getattr(kind, method))
                kind = stated["return"] if number is None else stated[list(stated)[number]]
            else:
                kind = kinds_of(kind)[part]
        opaque = [Ellipsis if value == {"bytes": True} else value for value in (*arguments, answer)]
        marks |= check_call(kind, rest[-1], opaque[:-1], opaque[-1])
    return marks
