"""Two processes train like one with all their windows."""

import json
import os
import subprocess
import sys
from pathlib import Path

import distributed_worker as worker
import numpy as np
import pytest

from tinygpt.reference.distributed import is_main_process, torch_engine, world_size

pytestmark = pytest.mark.xdist_group("distributed")  # of two processes, which are started once


@pytest.fixture(scope="module")
def two(tmp_path_factory) -> list[dict]:
    folder = tmp_path_factory.mktemp("two")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    subprocess.run(
        [*command, worker.__file__, str(folder)],
        check=True,
        timeout=600,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    return [json.loads(Path(folder, f"{rank}.json").read_text()) for rank in range(2)]


@pytest.fixture(scope="module")
def one() -> dict:
    """The 3 x 2 windows of either process, and both halves of validation, in one process."""
    return worker.run(worker.small_run(batch=3, grad_accum=4, eval_batches=5))


def test_losses_and_norms_are_those_of_one_process_with_all_windows(one, two):
    assert len(two[0]["losses"]) == 5
    assert np.allclose(two[0]["losses"], one["losses"][:5], rtol=0, atol=4e-6)
    assert np.allclose(two[0]["norms"], one["norms"][:5], rtol=2e-5)


def test_all_processes_hold_the_same_model_and_report_the_same(two):
    for key in ("losses", "norms", "evals", "samples", "w", "step", "reason"):
        assert two[0][key] == two[1][key], key
    assert [result["main"] for result in two] == [True, False]


def test_validation_is_split_and_gives_the_loss_of_one_process(one, two):
    assert len(two[0]["evals"]) == 1  # 15 windows: 8 for one process, 7 for the other
    assert two[0]["evals"][0] == pytest.approx(one["evals"][0], abs=4e-6)


def test_when_one_process_is_to_stop_all_stop(two):
    assert [result["reason"] for result in two] == ["stopped", "stopped"]
    assert [result["step"] for result in two] == [5, 5]


def test_without_torchrun_there_is_one_process():
    assert world_size() == 1 and is_main_process()
    assert torch_engine(worker.small_run(), device="cpu").replicas == 1
