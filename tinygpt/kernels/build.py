"""Compiles the C++ kernels with zig (from PyPI's ziglang) into a cache, once per source and target.

TINYGPT_SANITIZE=clang-19 names a clang that compiles them instead, to report what they do outside of memory or of
the language. Its runtime has to be preloaded: see `make sanitize`.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tinygpt.core.errors import TinyGPTError
from tinygpt.core.ops import KERNEL_NAMES
from tinygpt.core.ops.op import KERNELS, SHARED
from tinygpt.disk.cache import cache_dir, write_atomically

HERE = Path(__file__).parent
ZIG = [sys.executable, "-m", "ziglang"]
TYPES = {"f32": "float", "i32": "i32", "u8": "u8", "i8": "i8", "f16": "half"}  # of tensors, in C++

LANGUAGE = ["-std=c++20", "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics", "-fvisibility=hidden"]
# No contraction: a kernel rounds where its source says so, on every target.
ARITHMETIC = ["-O3", "-g0", "-ffp-contract=off", "-fno-math-errno"]
WARNINGS = ["-Wall", "-Wextra", "-Werror", "-Wno-unused-function"]
COMMON_FLAGS = LANGUAGE + ARITHMETIC + WARNINGS

# Lanes of float32 in a vector -> the least CPU that has them, on x86-64.
X86_FLAGS = {
    4: ["-mcpu=x86_64_v2"],
    8: ["-mcpu=x86_64_v3"],
    16: ["-mcpu=x86_64_v4", "-mprefer-vector-width=512"],
}

# The first report ends the process. -O1: more of what the source says is left to check than at -O3, and it is quick.
SANITIZERS = ["-O1", "-g", "-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


def args_header() -> str:
    """C++ structs of each kernel's arguments, under the names of core/ops, the constants shared with it, and the
    dispatch over the kernels.

    An op's words: kernel number, word count, an arena offset per tensor in units of 64 bytes (-1: absent),
    the scratch's offset, the dims, the scalars' bits; per tensor whose rows may lie apart their pitch and how many
    floats further on it begins.
    """
    lines = ["#pragma once", '#include "tg.h"', ""]
    lines += [f"constexpr i64 {name} = {SHARED[name]};" for name in sorted(SHARED)] + [""]
    cases, runs = [], []
    for number, name in enumerate(KERNEL_NAMES):
        signature = KERNELS[name]
        fields, values = [], []
        for i, tensor in enumerate(signature.tensors):
            kind = TYPES[signature.dtypes.get(tensor, "f32")]
            const = "const " if i < len(signature.inputs) else ""
            fields.append(f"  {const}{kind}* {tensor};")
            values.append(f"({const}{kind}*)at(arena, words[{2 + i}])")
        place = 2 + len(values)
        fields.append("  float* scratch;")
        values.append(f"at(arena, words[{place}])")
        for dim in signature.dims:
            place += 1
            fields.append(f"  i32 {dim};")
            values.append(f"words[{place}]")
        for scalar in signature.scalars:
            place += 1
            fields.append(f"  float {scalar};")
            values.append(f"__builtin_bit_cast(float, words[{place}])")
        for tensor in signature.apart:
            place += 2
            fields.append(f"  i32 {tensor}_pitch;")
            values.append(f"words[{place - 1}]")
            values[signature.tensors.index(tensor)] += f" + words[{place}]"
        lines += [f"struct {name}_args {{", *fields, "};", f"static void {name}(const {name}_args& a, Team& team);", ""]
        runs += [
            f"static __attribute__((noinline)) void run_{name}(float* arena, const i32* words, Team& team) {{",
            f"  {name}({{{', '.join(values)}}}, team);",
            "}",
        ]
        cases.append(f"    case {number}: return run_{name}(arena, words, team);")
    lines += [
        "INLINE float* at(float* arena, i32 line) { return line < 0 ? nullptr : arena + (i64)line * 16; }",
        "",
        "// A function each: in one of all kernels a compiler's passes take more than their share of the time.",
        *runs,
        "",
        "static void run_op(float* arena, const i32* words, Team& team) {",
        "  switch (words[0]) {",
        *cases,
        "  }",
        "}",
        "",
    ]
    return "\n".join(lines)


def sources() -> list[Path]:
    return sorted(HERE.glob("*.cpp")) + sorted(HERE.glob("*.h"))


def unit() -> str:
    """All kernels as one translation unit: the compiler sees everything, and one call builds it."""
    includes = [f'#include "{path.name}"' for path in sorted(HERE.glob("*.cpp")) if path.name != "run.cpp"]
    return "\n".join(['#include "args.h"', *includes, '#include "run.cpp"', ""])


class Target(NamedTuple):
    """What a library is compiled for."""

    system: str  # as sys.platform names it: linux, darwin, win32
    machine: str  # x86_64, aarch64

    @property
    def suffix(self) -> str:
        return {"darwin": ".dylib", "win32": ".dll"}.get(self.system, ".so")

    @property
    def triple(self) -> str:
        """As zig names it."""
        return f"{self.machine}-{ {'darwin': 'macos', 'win32': 'windows-gnu'}.get(self.system, 'linux-gnu') }"

    def cpu_flags(self, lanes: int) -> list[str]:
        """The least CPU that has these vectors, so that what was tested is what runs."""
        if self.machine == "x86_64":
            return X86_FLAGS[lanes]
        if self.machine == "aarch64":  # NEON and its fused instructions are in all of them
            return ["-mcpu=apple_m1" if self.system == "darwin" else "-mcpu=generic"]
        return ["-mcpu=native"]

    def library_flags(self) -> list[str]:
        """Without a standard library nothing of zig's need be built first; the process has libc, or Windows' own."""
        flags = ["-shared", "-nostdlib"]
        if self.system == "win32":
            return [*flags, "-Wl,--no-entry", "-lkernel32"]
        return [*flags, "-fPIC", *(["-Wl,-undefined,dynamic_lookup"] if self.system == "darwin" else [])]


def this_machine() -> Target:
    names = {"amd64": "x86_64", "arm64": "aarch64"}  # Windows' and macOS' own
    machine = platform.machine().lower()
    return Target(sys.platform, names.get(machine, machine))


def compiler(target: Target, lanes: int) -> tuple[list[str], list[str]]:
    """The command that compiles C++ for vectors of `lanes` floats on that target, and its flags."""
    flags = COMMON_FLAGS + target.cpu_flags(lanes) + [f"-DLANES={lanes}"]
    clang = os.environ.get("TINYGPT_SANITIZE")
    if clang:
        # zig writes a CPU's name in its own way.
        return [clang], [flag.replace("-mcpu=x86_64_", "-march=x86-64-") for flag in flags] + SANITIZERS
    return [*ZIG, "c++"], flags if target == this_machine() else ["-target", target.triple, *flags]


def compile_kernels(lanes: int, target: Target | None = None) -> Path:
    """The shared library with vectors of `lanes` floats, for this machine or another, compiled if it is not cached."""
    target = target or this_machine()
    command, flags = compiler(target, lanes)
    flags = flags + target.library_flags()
    return cached(f"kernels-{lanes}-{source_digest(flags)}", target.suffix, command + flags)


def source_digest(*more: object) -> str:
    """Names what would be compiled: the sources, and `more` (flags)."""
    digest = hashlib.sha256(repr((*more, args_header(), unit())).encode())
    for path in sources():
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def cached(
    stem: str, suffix: str, command: list[str], link: list[str] | None = None, source: str | None = None
) -> Path:
    """What the command makes of the unit, or of another source, from the cache if it is there and whole.

    A file's name ends with the digest of its content: to map a damaged one into memory may kill the process.
    """
    folder = cache_dir("kernels")
    for path in folder.glob(f"{stem}-*{suffix}"):
        if path.name == f"{stem}-{digest_of(path.read_bytes())}{suffix}":
            return path
        with suppress(OSError):  # Windows deletes no file that a process has loaded
            path.unlink()
    content = compile_unit(command, link, source or unit())
    made = folder / f"{stem}-{digest_of(content)}{suffix}"
    write_atomically(made, content)
    return made


def digest_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def compile_unit(command: list[str], link: list[str] | None, text: str) -> bytes:
    """Run the C++ compiler over a text.

    With `link`, the command is to give an object file, and `link` is the command that takes it on.
    """
    if "ziglang" in command and importlib.util.find_spec("ziglang") is None:
        raise TinyGPTError("the C++ compiler is missing; install it with: pip install ziglang")
    with tempfile.TemporaryDirectory(dir=cache_dir("kernels")) as folder:
        temporary = Path(folder)
        (temporary / "args.h").write_text(args_header())
        source = temporary / "unit.cpp"
        source.write_text(text)
        made = temporary / "unit.made"
        compiled = made if link is None else temporary / "unit.o"
        build([*command, f"-I{temporary}", f"-I{HERE}", str(source), "-o", str(compiled)], temporary)
        if link is not None:
            build([*link, str(compiled), "-o", str(made)], temporary)
        return made.read_bytes()


def build(command: list[str], temporary: Path) -> None:
    environment = dict(os.environ, ZIG_LOCAL_CACHE_DIR=str(temporary / "zig"))
    environment.setdefault("ZIG_GLOBAL_CACHE_DIR", str(cache_dir("zig")))
    environment.pop("LD_PRELOAD", None)  # a sanitizer's runtime is for the kernels, not for their compiler
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        raise TinyGPTError(f"the C++ kernels did not compile; the compiler said: {done.stderr.strip()}")
