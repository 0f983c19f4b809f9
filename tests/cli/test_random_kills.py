"""kill -9 at random moments, again and again, on three engines: the run ends with the bytes of one never killed."""

from __future__ import annotations

import random
import subprocess
import time
from pathlib import Path

import pytest
from cli_helpers import CALM, ENVIRONMENT, TINY, command, metrics, succeed
from test_cli_resume import assert_same_run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]
STEPS = {"native": 600, "wasm-node": 400, "webgpu": 200}
KILLS = 20


def arguments(engine: str, text: Path, run: Path) -> list[object]:
    sizes = [*TINY, *CALM, "--steps", STEPS[engine], "--checkpoint-every", 10]
    return ["train", "--preset", "tiny", *sizes, "--engine", engine, "--file", text, "--out", run, "--quiet"]


def reached(run: Path) -> int:
    try:
        return max((row["step"] for row in metrics(run)), default=0)
    except (FileNotFoundError, ValueError):  # not there yet, or a line that is being written
        return 0


@pytest.mark.parametrize("engine", STEPS)
def test_a_run_that_is_killed_twenty_times_ends_as_one_that_never_was(
    engine: str, text_file: Path, tmp_path: Path
) -> None:
    straight, killed = tmp_path / "straight", tmp_path / "killed"
    succeed(*arguments(engine, text_file, straight))
    draw = random.Random(engine)
    for kill in range(KILLS):
        again = (killed / "config.toml").exists()
        begun = ["train", "--resume", killed, "--quiet"] if again else arguments(engine, text_file, killed)
        goal = STEPS[engine] * (kill + 1) // (KILLS + 2)
        with subprocess.Popen(command(*begun), env=ENVIRONMENT) as process:
            while process.poll() is None and reached(killed) < goal:
                time.sleep(0.01)
            time.sleep(0.05 * draw.random())  # anywhere: amid a step, a validation, a save
            process.kill()
    succeed("train", "--resume", killed, "--quiet")
    assert_same_run(straight, killed)
