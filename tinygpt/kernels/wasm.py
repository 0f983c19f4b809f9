"""The C++ kernels as WebAssembly modules, compiled by zig into the cache.

    python -m tinygpt.kernels.wasm web/public/kernels

A module imports its memory as env.memory and exports tg_run, its stack pointer (each thread's instance gets
a stack of its own) and __heap_base, where memory is free. There is no libc in it and it never grows memory.
"""

from __future__ import annotations

import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from tinygpt.core.errors import TinyGPTError
from tinygpt.kernels.build import COMMON_FLAGS, ZIG, cached, source_digest

PAGE = 2**16
STACK = 2**16  # bytes per thread; the player gives as much to each (wasm.ts)

# What every browser with WebAssembly threads has, and what each build asks for besides.
BASELINE = "generic+bulk_memory+mutable_globals+nontrapping_fptoint+sign_ext"
FEATURES = {"scalar": "", "simd": "+simd128", "relaxed": "+simd128+relaxed_simd"}
# The most memory a module may be given: what 32 bits address, what browsers allow with 64.
LARGEST = {32: 2**32, 64: 2**34}


class Build(NamedTuple):
    features: str
    threads: bool
    bits: int

    @property
    def file(self) -> str:
        return f"{self.features}{'-threads' if self.threads else ''}{'-64' if self.bits == 64 else ''}.wasm"


# Whoever has 64-bit memory has SIMD.
BUILDS = [Build(features, threads, 32) for features in FEATURES for threads in (False, True)]
BUILDS += [Build(features, threads, 64) for features in ("simd", "relaxed") for threads in (False, True)]


def compiler_flags(build: Build) -> list[str]:
    cpu = BASELINE + FEATURES[build.features] + ("+atomics" if build.threads else "")
    return [*COMMON_FLAGS, f"--target=wasm{build.bits}-freestanding", f"-mcpu={cpu}", "-DLANES=4", "-c"]


def compile_wasm(build: Build) -> Path:
    """The module, compiled if it is not cached."""
    flags = compiler_flags(build)
    link = ["wasm-ld", "--no-entry", "--import-memory", "--strip-all", f"-zstack-size={STACK}"]
    link += [f"--export={name}" for name in ("tg_run", "__stack_pointer", "__heap_base")]
    link += ["-mwasm64"] if build.bits == 64 else []
    link += ["--shared-memory", f"--max-memory={LARGEST[build.bits]}"] if build.threads else []
    stem = f"{Path(build.file).stem}-{source_digest(flags, link)}"
    return cached(stem, ".wasm", [*ZIG, "c++", *flags], [*ZIG, *link])


def compile_all(folder: Path) -> list[Path]:
    """Every build, under its name in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor() as pool:
        modules = list(pool.map(compile_wasm, BUILDS))
    return [Path(shutil.copyfile(module, folder / build.file)) for module, build in zip(modules, BUILDS, strict=True)]


def main() -> None:
    if len(sys.argv) != 2:
        raise SystemExit("usage: python -m tinygpt.kernels.wasm OUT")
    try:
        for path in compile_all(Path(sys.argv[1])):
            print(f"{path}  {path.stat().st_size / 1000:.1f} KB")
    except TinyGPTError as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
