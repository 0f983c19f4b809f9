"""Runs of a sweep on the native engine: what they report, engines that are used again, processes side by side."""

import json
import os
import signal
import time

import pytest

from tinygpt.core.engine.contract import run_now
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.train.host import Host
from tinygpt.core.train.trainer import Trainer
from tinygpt.engines.evaluation import evaluate
from tinygpt.engines.native import native_engine
from tinygpt.engines.select import EngineChoice
from tinygpt.sweeps import Axis, Plan, SweepFolder, read_results, standings
from tinygpt.sweeps import running as running_module
from tinygpt.sweeps.running import Runner, SweepTrainer, Work
from tinygpt.sweeps.sweeping import Watch, one_by_one, side_by_side, sweep

TEXT = (
    b"".join(
        b"the %s %s sat on the %s.\n" % (a, b, c)
        for a in (b"big", b"old")
        for b in (b"cat", b"fox", b"hen")
        for c in (b"mat", b"log")
    )
    * 9
)
TRAIN, VAL = TEXT[:-150], TEXT[-150:]
SMALL = {
    "layers": 1,
    "d_model": 16,
    "heads": 2,
    "ctx": 12,
    "batch": 4,
    "steps": 30,
    "eval_every": 10,
    "eval_batches": 2,
}
ALWAYS = lambda step: True  # noqa: E731


def planned(fixed=SMALL, halving=0, whole_text=False, **axes):
    return Plan(tuple(Axis(*axis) for axis in axes.items()), "tiny", dict(fixed), halving, whole_text)


def runs_of(plan):
    return plan.runs(plan.rungs()[0], plan.candidates())


def work(**more):
    return Work(EngineChoice("native", threads=1), TRAIN, VAL, **more)


class Nobody(Watch):
    """Hears nothing."""


class Listener(Host):
    def __init__(self):
        self.evals = []

    def now(self):
        return time.perf_counter()

    def emit(self, event):
        if event["event"] == "eval":
            self.evals.append(event["val_loss"])

    def keeps(self, kind):
        return False


def trained(config):
    engine = native_engine(config, threads=1)
    run_now(engine.load_corpus(TRAIN, VAL))
    host = Listener()
    run_now(Trainer(config, engine, host, len(TRAIN), len(VAL)).run())
    return engine, host.evals


def test_a_result_is_what_train_would_have_measured_and_an_engine_used_again_changes_nothing(monkeypatch):
    made = []
    make = running_module.make_engine
    monkeypatch.setattr(running_module, "make_engine", lambda *given: made.append(given[0]) or make(*given))
    runner = Runner(work(whole_text=True))
    plan = planned(lr=(1e-3, 1e-2), schedule=("cosine", "constant"), batch=(4, 5))
    for run in runs_of(plan):
        result = runner.run(run, ALWAYS)
        engine, evals = trained(run.config)
        assert [loss for _, _, loss in result.curve] == evals and len(evals) == 3
        assert result.val_loss == evals[-1] and result.best_val == min(evals) and result.outcome == "finished"
        assert result.text_loss == result.loss == run_now(evaluate(engine, VAL)).loss
        rows = run.config.train.batch * run.config.model.ctx
        assert [tokens for tokens, _, _ in result.curve] == [10 * rows, 20 * rows, 30 * rows]
        assert result.tokens == 30 * rows and result.steps == 30
        seconds = [seconds for _, seconds, _ in result.curve]
        assert 0 < seconds[0] < seconds[1] < seconds[2] == result.seconds < result.wall_seconds
        assert result.tokens_per_second == pytest.approx(result.tokens / result.seconds, rel=1e-2)
        assert result.config == run.config.as_dict() and "native" in result.engine
    assert [config.train.batch for config in made] == [4, 5]


def test_the_first_block_counts_as_its_steps_would_later():
    trainer = SweepTrainer.__new__(SweepTrainer)
    trainer.reached = [(2, 30.0), (4, 1.0), (10, 3.0)]
    assert [trainer.seconds_at(step) for step in (2, 4, 10)] == [1.0, 2.0, 5.0]
    trainer.reached = [(5, 3.0)]
    assert trainer.seconds_at(5) == 3.0


def test_a_run_that_diverges_is_a_result_and_the_next_one_is_sound():
    runner = Runner(work())
    plan = planned({**SMALL, "grad_clip": 0.0, "optimizer": "sgd"}, lr=(10.0, 0.01))
    lost, sound = (runner.run(run, ALWAYS) for run in runs_of(plan))
    assert lost.outcome == "diverged" and lost.loss == float("inf") and "training stopped at step" in lost.reason
    assert lost.steps < 30
    assert sound.outcome == "finished" and sound.val_loss == trained(runs_of(plan)[1].config)[1][-1]
    assert [standing.sound for standing in standings([lost, sound])] == [True, False]
    assert json.loads(json.dumps(lost.as_dict()))["reason"] == lost.reason


def test_a_run_that_this_machine_cannot_do_is_a_result_too(monkeypatch):
    make = running_module.make_engine

    def refusing(config, choice):
        if config.train.batch == 4:
            raise TinyGPTError("this takes more memory than there is")
        return make(config, choice)

    monkeypatch.setattr(running_module, "make_engine", refusing)
    runner = Runner(work())
    results = [runner.run(run, ALWAYS) for run in runs_of(planned(batch=(3, 4, 5)))]
    assert [result.outcome for result in results] == ["finished", "failed", "finished"]
    assert results[1].reason == "this takes more memory than there is"


def test_a_run_that_is_stopped_leaves_nothing_and_the_runner_whole():
    runner, (first, second) = Runner(work()), runs_of(planned(lr=(1e-3, 1e-2)))
    assert runner.run(first, lambda step: step < 7) is None
    assert runner.run(second, ALWAYS).val_loss == trained(second.config)[1][-1]


def swept(plan, do):
    return sorted((result.key, result.val_loss) for result in sweep(plan, [], do, lambda result: None))


def test_processes_side_by_side_find_what_one_finds():
    plan = planned(lr=(1e-3, 1e-2), batch=(3, 4))
    heard = []

    class Hearing(Watch):
        def finished(self, run, result):
            heard.append(result.key)

    alone = swept(plan, one_by_one(Runner(work()), Nobody(), lambda run: None))
    assert swept(plan, side_by_side(2, work(), Hearing(), lambda run: None)) == alone
    assert sorted(heard) == [key for key, _ in alone]


def test_a_process_that_dies_is_one_sentence_and_takes_no_other_along(monkeypatch):
    from tinygpt.sweeps import workers

    plan = planned({**SMALL, "steps": 100_000}, lr=(1e-3, 1e-2))

    class Killing(Watch):
        def stepped(self, run, step):
            os.kill(made[0].pid, signal.SIGKILL)

    made = []
    begin = workers.Workers.__init__

    def beginning(self, *given):
        begin(self, *given)
        made.extend(self.processes.values())

    monkeypatch.setattr(workers.Workers, "__init__", beginning)
    with pytest.raises(TinyGPTError, match=r"died \(status -9\), perhaps for want of memory: go on with fewer --jobs"):
        swept(plan, side_by_side(2, work(), Killing(), lambda run: None))
    assert not any(process.is_alive() for process in made)


def test_a_folder_keeps_whole_lines_and_one_writer(tmp_path):
    plan = planned(lr=(1e-3, 1e-2))
    runner = Runner(work())
    results = [runner.run(run, ALWAYS) for run in runs_of(plan)]
    with SweepFolder.create(tmp_path / "s", "") as folder:
        with pytest.raises(TinyGPTError, match="another process is"):
            SweepFolder.open(tmp_path / "s").lock()
        for result in results:
            folder.record(result)
        with folder.results.open("ab") as file:
            file.write(folder.results.read_bytes()[:90] + b'\n{"rung": 0}\nnull\n[]\n' + b'{"rung": 0, "sett')
        assert read_results(folder.results) == results
        folder.keep_only(results)
        assert len(folder.results.read_bytes().splitlines()) == 2
    with pytest.raises(TinyGPTError, match="not an empty folder"):
        SweepFolder.create(tmp_path / "s", "")
    with pytest.raises(TinyGPTError, match="no folder of a sweep"):
        SweepFolder.open(tmp_path)
