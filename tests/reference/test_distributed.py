"""Two processes train as one does: the same steps, the same validations, and one goes on where two have stopped."""

import json
import os
import subprocess
import sys
from pathlib import Path

import distributed_worker as worker
import numpy as np
import pytest

from tinygpt.core.config import TrainConfig
from tinygpt.core.engine.contract import run_now
from tinygpt.core.errors import TinyGPTError
from tinygpt.engines.base import State
from tinygpt.reference.distributed import is_main_process, torch_engine, world_size
from tinygpt.reference.engine import shape_of_share

pytestmark = pytest.mark.xdist_group("distributed")  # of two processes, which are started once


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("two")


@pytest.fixture(scope="module")
def two(folder) -> list[dict]:
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
    return worker.run(worker.small_run(**worker.STEP))


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


def test_one_process_goes_on_where_two_have_stopped(one, two, folder):
    kept = dict(np.load(folder / "0.npz"))
    state = State(int(kept.pop("step")), kept.pop("w"), kept)
    engine = torch_engine(worker.small_run(**worker.STEP), state, device="cpu")
    run_now(engine.load_corpus(worker.TEXT, worker.VAL))
    run_now(engine.train(3))
    losses = [row.loss for row in run_now(engine.read_metrics())]
    run_now(engine.close())
    assert state.step == 5 and np.allclose(losses, one["losses"][5:], rtol=0, atol=2e-5)


@pytest.mark.parametrize(
    ("batch", "grad_accum", "processes", "shape"),
    [
        (16, 1, 1, (1, 16)),
        (3, 4, 1, (4, 3)),
        (16, 1, 8, (1, 2)),
        (8, 4, 2, (2, 8)),
        (6, 2, 4, (1, 3)),
        (4, 5, 2, (5, 2)),
    ],
)
def test_a_process_has_its_share_in_micro_batches_of_at_most_the_batch(batch, grad_accum, processes, shape):
    assert shape_of_share(TrainConfig(batch=batch, grad_accum=grad_accum), processes) == shape


def test_windows_that_cannot_be_shared_are_said():
    with pytest.raises(
        TinyGPTError, match="3 processes cannot share a step of 16 windows evenly: set --batch to a mult"
    ):
        shape_of_share(TrainConfig(batch=16), 3)


def test_when_one_process_is_to_stop_all_stop(two):
    assert [result["reason"] for result in two] == ["stopped", "stopped"]
    assert [result["step"] for result in two] == [5, 5]


def test_without_torchrun_there_is_one_process():
    assert world_size() == 1 and is_main_process()
    assert torch_engine(worker.small_run(), device="cpu").processes.count == 1
