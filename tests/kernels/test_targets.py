"""The kernels compiled for machines that are not here: those of most users."""

import platform
import re
import struct
import sys

import pytest

from tinygpt.engines.native import cpu_lanes
from tinygpt.kernels.build import Target, compile_kernels, compiler, this_machine

ELF_MACHINES = {0xB7: "aarch64", 0x3E: "x86_64"}
MACH_ARM64 = 0x0100000C
PE_X86_64 = 0x8664
SIGNATURE = b"\xfa\xde\x0c\xc0"  # Apple's CPUs load no library without one


def built_for(library: bytes) -> tuple[str, str]:
    """The system and machine that a library's own header names."""
    if library[:4] == b"\x7fELF":
        return "linux", ELF_MACHINES[struct.unpack_from("<H", library, 18)[0]]
    if library[:4] == b"\xcf\xfa\xed\xfe":
        return "darwin", "aarch64" if struct.unpack_from("<I", library, 4)[0] == MACH_ARM64 else "x86_64"
    assert library[:2] == b"MZ"
    (header,) = struct.unpack_from("<I", library, 60)
    assert library[header : header + 4] == b"PE\0\0"
    return "win32", "x86_64" if struct.unpack_from("<H", library, header + 4)[0] == PE_X86_64 else "aarch64"


@pytest.mark.parametrize(
    "system, machine, lanes, suffix",
    [
        pytest.param("linux", "aarch64", 4, ".so", marks=pytest.mark.slow),
        ("darwin", "aarch64", 4, ".dylib"),
        pytest.param("win32", "x86_64", 16, ".dll", marks=pytest.mark.slow),
    ],
)
def test_the_library_is_that_systems_and_exports_the_player(system, machine, lanes, suffix):
    library = compile_kernels(lanes, Target(system, machine))
    content = library.read_bytes()
    assert library.suffix == suffix
    assert built_for(content) == (system, machine)
    assert b"tg_run\0" in content
    if system == "darwin":
        assert SIGNATURE in content
    if system == "win32":
        assert set(re.findall(rb"[\w-]+\.dll", content)) == {b"KERNEL32.dll"}


@pytest.mark.parametrize(
    "system, machine, target, cpu",
    [
        ("linux", "aarch64", Target("linux", "aarch64"), "-mcpu=generic"),
        ("darwin", "arm64", Target("darwin", "aarch64"), "-mcpu=apple_m1"),
        ("darwin", "x86_64", Target("darwin", "x86_64"), "-mcpu=x86_64_v2"),
        ("win32", "AMD64", Target("win32", "x86_64"), "-mcpu=x86_64_v2"),
    ],
)
def test_a_machine_is_told_by_what_its_system_calls_it(monkeypatch, system, machine, target, cpu):
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    assert this_machine() == target and cpu in target.cpu_flags(4)
    _, flags = compiler(target, 4)
    assert "-target" not in flags  # its own zig knows
    if target.machine == "aarch64":
        assert cpu_lanes() == 4
