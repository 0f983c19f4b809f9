"""What an entry point of a WGSL text uses, itself and through what it calls, read from the text."""

import re
from collections.abc import Iterable
from math import prod
from pathlib import Path

KERNELS = Path(__file__).parents[2] / "tinygpt" / "kernels"

DECLARATION = re.compile(r"(?:@\w+(?:\([^)]*\))?\s*)*\b(fn|var(?:<[^>]*>)?|override|const|struct|alias)\s+(\w+)")
BINDING = re.compile(r"@group\(0\)\s*@binding\((\d+)\)\s*var<storage,\s*(\w+)>\s+(\w+)")


def joined(files: Iterable[str]) -> str:
    return "\n".join((KERNELS / file).read_text() for file in files)


def declarations(text: str) -> dict[str, str]:
    """Each declaration of the module, by name. A brace opens a body; a declaration ends after it, or with a ;"""
    text = re.sub(r"//.*", "", text)
    found: dict[str, str] = {}
    depth = start = 0
    for at, letter in enumerate(text):
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if depth == 0 and letter in ";}":
            match = DECLARATION.search(text[start : at + 1])
            if match:
                assert match[2] not in found, f"{match[2]} is declared twice"
                found[match[2]] = text[start : at + 1]
            start = at + 1
    return found


def used(text: str, entry: str) -> dict[str, str]:
    """The declarations that the entry point needs, by name. Local names must not be names of the module."""
    module = declarations(text)
    needed: dict[str, str] = {}
    waiting = [entry]
    while waiting:
        name = waiting.pop()
        if name in module and name not in needed:
            needed[name] = module[name]
            waiting += re.findall(r"(?<![.\w])[A-Za-z_]\w*", module[name])  # not a member after its dot
    return needed


def declared_bindings(text: str, entry: str) -> list[tuple[int, str, str]]:
    """(number, name, access) of each storage buffer that the entry point uses, by number."""
    matches = [BINDING.search(declaration) for declaration in used(text, entry).values()]
    return sorted((int(match[1]), match[3], match[2]) for match in matches if match)


def declared_overrides(text: str, entry: str) -> set[str]:
    """The overrides that the entry point uses and that have no value of their own."""
    return {
        name
        for name, declaration in used(text, entry).items()
        if re.search(r"\boverride\b", declaration) and "=" not in declaration
    }


def overrides(text: str, entry: str) -> set[str]:
    """All overrides that the entry point uses."""
    return {name for name, declaration in used(text, entry).items() if re.search(r"\boverride\b", declaration)}


SCALARS = {"f32": 4, "u32": 4, "i32": 4, "f16": 2, "atomic<u32>": 4}
SCALARS.update({"vec2f": 8, "vec4f": 16, "vec4<f32>": 16, "vec4<f16>": 8})


class Workgroup:
    """How many invocations a workgroup has, and how many bytes of memory, once the overrides have their values."""

    def __init__(self, text: str, entry: str, constants: dict[str, int | float]) -> None:
        self.module = used(text, entry)
        self.constants = constants
        sides = re.search(r"@workgroup_size\(([^)]*)\)", self.module[entry])
        assert sides, f"{entry} is no entry point"
        self.invocations = prod(self.value(side) for side in sides[1].split(","))
        kinds = [re.search(r"var<workgroup>\s+\w+\s*:\s*(.*);", line) for line in self.module.values()]
        self.bytes = sum(self.size(kind[1].strip()) for kind in kinds if kind)

    def value(self, expression: str) -> int:
        names = {name: self.named(name) for name in re.findall(r"\b[A-Za-z_]\w*", expression) if name != "max"}
        plain = re.sub(r"\b(\d+)u\b", r"\1", expression).replace("/", "//")
        return int(eval(plain.strip(), {"max": max, "__builtins__": {}}, names))

    def named(self, name: str) -> int:
        if name in self.constants:
            return int(self.constants[name])
        return self.value(self.module[name].split("=")[1].rstrip(";"))

    def size(self, kind: str) -> int:
        """Of a type, in bytes."""
        if kind.startswith("array<"):
            inner, count = re.fullmatch(r"array<(array<.*?>|[^,]*),(.*)>", kind).groups()
            return self.size(inner.strip()) * self.value(count)
        if kind in self.module:  # an alias
            return self.size(self.module[kind].split("=")[1].rstrip(";").strip())
        return SCALARS[kind]
