"""From a plan to a folder of results: what `sweep` does once its flags are understood."""

from __future__ import annotations

import os
import re
import shlex
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import typer

from tinygpt.cli.corpora import open_texts
from tinygpt.cli.interrupts import INTERRUPTED, stop_signals
from tinygpt.cli.output import Output
from tinygpt.cli.sweep_display import sweep_display
from tinygpt.cli.sweep_report import before, ended, report
from tinygpt.cli.sweep_settings import SweepSettings
from tinygpt.core.config import validates
from tinygpt.core.corpus import check_corpus
from tinygpt.core.engine.contract import run_now
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.presets import EXERCISES
from tinygpt.core.tasks import is_task
from tinygpt.engines.machine import cores
from tinygpt.engines.select import EngineChoice, make_engine, settle
from tinygpt.jobs.texts import OF_CONFIG, OF_RESUMED, Texts, with_texts
from tinygpt.store.runs import RUNS
from tinygpt.sweeps.cluster import RayCluster
from tinygpt.sweeps.folder import SweepFolder, numbered, read_results
from tinygpt.sweeps.plan import Plan, Run, described
from tinygpt.sweeps.results import FAILED, Result
from tinygpt.sweeps.running import Kept, Runner, Work
from tinygpt.sweeps.sweeping import Keep, on_cluster, one_by_one, side_by_side, sweep


@dataclass(frozen=True)
class Job:
    """A sweep to do: a new one in `out` (None: a numbered folder), or the rest of the one in `folder`."""

    settings: SweepSettings
    jobs: int = 1
    keep: bool = False
    on_ray: bool = False
    out: Path | None = None
    folder: SweepFolder | None = None


def execute(job: Job, output: Output) -> None:
    """All runs, or as many as Ctrl-C leaves time for. Whatever happens, the folder holds what is done."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise TinyGPTError("a sweep is not for torchrun: let it start processes of its own with --jobs")
    job.settings.plan.check()
    output.outlive()
    first = job.settings.of_first()
    texts = open_texts(first, output, remedy=OF_CONFIG if job.folder is None else OF_RESUMED)
    choice = settle(job.settings.engine, first.run).choice
    known = with_texts(first, texts)
    plan = replace(job.settings.plan, train_bytes=EXERCISES if is_task(first.data.name) else len(texts.train))
    settings = replace(job.settings, plan=plan, data=known.data, validation=known.validation, engine=choice)
    work = prepared_work(settings, texts, job.jobs)
    with ExitStack() as held:
        cluster = held.enter_context(RayCluster(work)) if job.on_ray else None
        device = cluster.describe() if cluster else described_engine(plan, work.engine)
        folder = job.folder or held.enter_context(new_folder(job, settings, texts.corpus.name))
        done = [result for result in read_results(folder.results) if result.outcome != FAILED]
        folder.keep_only(done)
        before(output, settings, folder, texts, device, done)
        stopped, results = run_all(job, settings, folder, work, done, output, cluster)
        if results:
            report(output, settings, folder, results)
    output.require_stdout()
    if stopped:
        output.hint(
            f"Stopped; finished runs are kept. Resume with: tinygpt sweep --resume {shlex.quote(str(folder.path))}"
        )
        raise typer.Exit(INTERRUPTED)
    ended(results)


def prepared_work(settings: SweepSettings, texts: Texts, jobs: int) -> Work:
    """The texts, known to be long enough for every run; the engine with its share of the CPU."""
    plan = settings.plan
    for candidate in plan.candidates():
        config = plan.config(candidate)
        check_corpus(config, len(texts.train))
        if not validates(config, len(texts.val)):
            raise TinyGPTError(
                f"there would be no validation loss to compare: the held-out part has {len(texts.val)} bytes, and one "
                f"window of a run with {described(candidate)} takes {config.model.ctx + 1}"
            )
    choice = settings.engine
    if jobs > 1 and not choice.threads:
        choice = choice._replace(threads=max(1, cores() // jobs))
    return Work(choice, texts.train, texts.val, plan.whole_text)


def described_engine(plan: Plan, choice: EngineChoice) -> str:
    """Of an engine that can be had: a wrong choice is found out before anything is begun."""
    engine = make_engine(plan.config(plan.candidates()[0]), choice)
    try:
        return engine.describe()
    finally:
        run_now(engine.close())


def new_folder(job: Job, settings: SweepSettings, corpus: str) -> SweepFolder:
    stem = Path(corpus).stem if settings.data.file else corpus.split("/")[-1]
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("-.") or "text"
    return SweepFolder.create(job.out or numbered(RUNS, f"sweep-{stem}"), settings.as_toml())


def run_all(
    job: Job,
    settings: SweepSettings,
    folder: SweepFolder,
    work: Work,
    done: list[Result],
    output: Output,
    cluster: RayCluster | None,
) -> tuple[bool, list[Result]]:
    """Whether it was stopped, and all results."""
    plan = settings.plan
    keep = keeper(settings, folder) if job.keep else lambda run: None
    display = sweep_display(output, plan, done)
    runner = Runner(work)
    with stop_signals(display.stop_soon, runner.stop) as stop:
        display.listen(lambda: stop.wanted or output.lost)
        if cluster:
            do = on_cluster(cluster, display)
        else:
            do = one_by_one(runner, display, keep) if job.jobs == 1 else side_by_side(job.jobs, work, display, keep)
        display.begin()
        try:
            results = sweep(plan, done, do, folder.record)
        finally:
            display.end()
            runner.close()
    return stop.wanted or output.lost, results


def keeper(settings: SweepSettings, folder: SweepFolder) -> Keep:
    def kept(run: Run) -> Kept:
        name = re.sub(r"[^A-Za-z0-9._=-]+", "-", ",".join(f"{key}={value}" for key, value in run.settings.items()))
        own = settings.of_run(run.settings, run.config)
        path = folder.runs / (f"{run.config.train.steps}-steps-{name}" if settings.plan.halving else name or "run")
        return Kept(path, own.as_toml(), own.data_facts())

    return kept
