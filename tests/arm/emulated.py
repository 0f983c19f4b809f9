"""The kernels as an ARM machine with Linux runs them: a program of its own (play.c), under qemu unless this is one."""

import platform
import shutil
import subprocess
from pathlib import Path

import numpy as np

from tinygpt.core.plan.cpu.lowering import DONE_WORD, TEAM_WORDS
from tinygpt.engines.native import NativeMachine, NativePlayer
from tinygpt.kernels.build import ZIG, Target, cached, compiler, source_digest

ARM = Target("linux", "aarch64")
MAIN = Path(__file__).with_name("play.c")


def make_program(folder: Path) -> Path:
    """The kernels as they are compiled for such a machine, with a main() and musl's libc."""
    command, flags = compiler(ARM, 4)
    link = ["cc", "-target", "aarch64-linux-musl", "-static", "-O2", str(MAIN)]
    stem = f"play-arm-{source_digest(flags, link, MAIN.read_bytes())}"
    made = cached(stem, ".elf", [*command, *flags, "-c"], [*ZIG, *link])
    program = Path(shutil.copyfile(made, folder / "play"))
    program.chmod(0o755)
    return program


def emulator() -> list[str]:
    if platform.machine() == "aarch64":
        return []
    found = shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static")
    assert found, "these tests emulate an ARM machine: install qemu-user, or run make test-slow as root on Debian"
    return [found]


class Arm:
    """A machine that plays words. Arena and shared words are files, which it and we map."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.program = make_program(folder)

    def mapped(self, name: str, content: np.ndarray) -> np.ndarray:
        path = self.folder / name
        content.tofile(path)
        return np.memmap(path, content.dtype, "r+")

    def play(self, arena: str, words: np.ndarray, commit: int, times: int, threads: int, *options: str) -> int:
        """How many times the words were run through, on the arena of that name."""
        words.astype(np.int32).tofile(self.folder / "words")
        shared = self.mapped("shared", np.zeros(TEAM_WORDS, np.int32))
        files = [self.folder / name for name in (arena, "words", "shared")]
        numbers = [str(number) for number in (commit, times, threads)]
        subprocess.run([*emulator(), *options, self.program, *files, *numbers], check=True)
        return int(shared[DONE_WORD])


class ArmPlayer(NativePlayer):
    def __init__(self, playbook, threads: int, arm: Arm) -> None:
        super().__init__(playbook, threads, lanes=4)
        self.arm = arm
        self.memory = arm.mapped(f"arena-{id(self)}", self.memory)
        self.name = Path(self.memory.filename).name

    def play(self, words, commit, times):
        return self.arm.play(self.name, words, commit, times, self.threads)


class ArmMachine(NativeMachine):
    def __init__(self, threads: int, arm: Arm) -> None:
        super().__init__(threads, lanes=4)
        self.arm = arm

    async def open(self, lowered):
        return ArmPlayer(lowered.playbook(), self.threads, self.arm)
