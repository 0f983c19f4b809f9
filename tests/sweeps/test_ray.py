"""A sweep on a Ray cluster of several nodes: the results of one without Ray, also where a node is killed on the way."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ray = pytest.importorskip("ray", reason="pip install 'tinygpt[ray]'")

pytestmark = pytest.mark.slow
SWEEP = ["sweep", "--preset", "tiny", "--over", "lr=1e-3,3e-3", "--over", "seed=1,2,3", "--steps", "1500", "--json"]
SWEEP += ["--data", "shakespeare", "--eval-every", "500", "--eval-batches", "2"]
OF_TIME = ("seconds", "wall_seconds", "tokens_per_second", "curve", "engine", "event")


@pytest.fixture
def cluster() -> Iterator[Any]:
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    yield made
    ray.shutdown()
    made.shutdown()


def results(lines: Iterator[str] | list[str]) -> list[dict[str, Any]]:
    told = [row for row in map(json.loads, lines) if row["event"] == "run"]
    assert len(told) == 6
    rows = [{key: value for key, value in row.items() if key not in OF_TIME} for row in told]
    return sorted(rows, key=lambda row: json.dumps(row["settings"]))


def test_a_node_that_is_killed_changes_nothing(cluster: Any, tmp_path: Path) -> None:
    lost, _ = cluster.add_node(num_cpus=1), cluster.add_node(num_cpus=1)
    program = f"import os; os.environ['RAY_ADDRESS'] = {cluster.address!r}\nfrom tinygpt.cli import main\nmain()"
    command = [sys.executable, "-c", program, *SWEEP, "--engine", "native", "--on", "ray", "--out", str(tmp_path / "a")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        seen = [child.stdout.readline()]  # a run is done, others are under way on both nodes
        cluster.remove_node(lost, allow_graceful=False)
        seen += list(child.stdout)
    assert child.returncode == 0
    alone = [
        sys.executable,
        "-m",
        "tinygpt",
        *SWEEP,
        "--engine",
        "native",
        "--threads",
        "1",
        "--out",
        str(tmp_path / "b"),
    ]
    done = subprocess.run(alone, capture_output=True, text=True, check=True)
    assert results(seen) == results(done.stdout.splitlines())
    again = subprocess.run(
        [sys.executable, "-m", "tinygpt", "sweep", "--resume", str(tmp_path / "a"), "--json"], check=True
    )
    assert again.returncode == 0  # all is done: the table again


def test_a_run_that_fits_no_machine_is_refused(cluster: Any, tmp_path: Path) -> None:
    cluster.add_node(num_cpus=1)
    program = f"import os; os.environ['RAY_ADDRESS'] = {cluster.address!r}\nfrom tinygpt.cli import main\nmain()"
    command = [sys.executable, "-c", program, *SWEEP, "--engine", "native", "--threads", "5", "--on", "ray"]
    done = subprocess.run([*command, "--out", str(tmp_path / "a")], capture_output=True, text=True)
    assert done.returncode == 1
    assert "no machine of this Ray cluster has 5 cores: choose another --engine or fewer --threads" in done.stderr
    assert not (tmp_path / "a").exists()
