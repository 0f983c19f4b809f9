"""All runs of a sweep, rung by rung, in this process or in several."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from tinygpt.sweeps.plan import Plan, Run
from tinygpt.sweeps.results import FAILED, Result, standings
from tinygpt.sweeps.running import Kept, Runner, Work

if TYPE_CHECKING:
    from tinygpt.sweeps.cluster import RayCluster

Keep = Callable[[Run], Kept | None]
Do = Callable[[Sequence[Run]], Iterator[Result]]  # ends early where the sweep is to stop


class Watch(Protocol):
    """Hears what happens, and may stop the sweep."""

    def started(self, run: Run) -> None: ...

    def stepped(self, run: Run, step: int) -> None: ...

    def finished(self, run: Run, result: Result) -> None: ...

    def should_stop(self) -> bool: ...


def sweep(plan: Plan, before: Iterable[Result], do: Do, record: Callable[[Result], None]) -> list[Result]:
    """Do what is not among the results already; all of them. Runs that had failed are tried once more.

    The runs of a rung are as long as each other's share says; the best go on to the next, where they start anew.
    """
    there = {result.key: result for result in before if result.outcome != FAILED}
    results: list[Result] = []
    candidates = plan.candidates()
    for rung in plan.rungs():
        runs = plan.runs(rung, candidates)
        of_rung = [there[run.key] for run in runs if run.key in there]
        for result in do([run for run in runs if run.key not in there]):
            of_rung.append(result)
            record(result)
        results += of_rung
        ranked = standings(of_rung)
        candidates = [standing.settings for standing in ranked if standing.sound][: rung.keep]
        if len(of_rung) < len(runs) or not candidates:  # it was stopped, or nothing can go on
            break
    return results


def one_by_one(runner: Runner, watch: Watch, keep: Keep) -> Do:
    """In this process, one engine after the other."""

    def do(runs: Sequence[Run]) -> Iterator[Result]:
        for run in runs:
            watch.started(run)

            def on_step(step: int, run: Run = run) -> bool:
                watch.stepped(run, step)
                return not watch.should_stop()

            result = None if watch.should_stop() else runner.run(run, on_step, keep(run))
            if result is None:
                return
            watch.finished(run, result)
            yield result

    return do


def on_cluster(cluster: RayCluster, watch: Watch) -> Do:
    return lambda runs: cluster.do(runs, watch)


def side_by_side(jobs: int, work: Work, watch: Watch, keep: Keep) -> Do:
    """In so many processes at once."""
    from tinygpt.sweeps.workers import Workers

    def do(runs: Sequence[Run]) -> Iterator[Result]:
        with Workers(min(jobs, len(runs)), work) as workers:
            yield from workers.do(runs, watch, keep)

    return do
