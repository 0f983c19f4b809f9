"""Runs of a sweep on a Ray cluster: as many at once as it has room for, on any of its machines.

    pip install 'tinygpt[ray]'
    tinygpt sweep --over lr=1e-3,3e-3 --on ray

Each run asks for its cores or its GPU, and Ray places it. A run that is lost with its machine starts anew on another.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from tinygpt.core.errors import TinyGPTError
from tinygpt.engines.machine import cores
from tinygpt.engines.select import EngineChoice
from tinygpt.sweeps.plan import Run, described
from tinygpt.sweeps.results import Result
from tinygpt.sweeps.running import Runner, Work
from tinygpt.sweeps.workers import BETWEEN_NEWS, now_and_then

if TYPE_CHECKING:
    from tinygpt.sweeps.sweeping import Watch

TRIES = 3  # more, for a run whose machine or process is lost
ON_GPU = ("webgpu", "webgpu-chromium")


def share_of(choice: EngineChoice) -> dict[str, int]:
    """What a run asks of a machine."""
    if choice.name in ON_GPU or (choice.name == "torch" and choice.device not in ("auto", "cpu")):
        return {"num_cpus": 1, "num_gpus": 1}
    return {"num_cpus": choice.threads or 1}


RUNNERS: dict[str, Runner] = {}  # of this process, by their sweep: so an engine is used again, as it is without Ray


class News:
    """An actor beside the one who watches: how far each run is."""

    def __init__(self) -> None:
        self.steps: dict[int, int] = {}

    def tell(self, number: int, step: int) -> None:
        self.steps[number] = step

    def take(self) -> dict[int, int]:
        steps, self.steps = self.steps, {}
        return steps


def work_on(sweep: str, work: Work, number: int, run: Run, news: Any) -> Result:
    """A task, in a process of Ray's."""
    if sweep not in RUNNERS:
        RUNNERS[sweep] = Runner(work)
    result = RUNNERS[sweep].run(run, now_and_then(lambda step: news.tell.remote(number, step)))
    assert result is not None  # nobody stops a run here: a task is cancelled
    return result


def say_nothing() -> None:
    """Ray prints what its machines say to stdout, where results are to be alone, and has no public switch for that."""
    with suppress(ImportError):
        from ray._private import worker

        worker.print_to_stdstream = lambda *_, **__: None


class RayCluster:
    """The cluster that RAY_ADDRESS names or that runs on this machine; if there is none, one of this machine alone."""

    def __init__(self, work: Work) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing leaves the machine
        try:
            import ray
            import ray.util.scheduling_strategies
        except ImportError:
            raise TinyGPTError("--on ray needs Ray: pip install 'tinygpt[ray]'") from None
        self.ray: Any = ray
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR", "ignore_reinit_error": True}
        self.own = not ray.is_initialized()
        say_nothing()
        if self.own:
            try:
                ray.init(address=os.environ.get("RAY_ADDRESS", "auto"), **quiet)
            except ConnectionError as fault:
                if "RAY_ADDRESS" in os.environ:
                    raise TinyGPTError(f"no Ray cluster answers at {os.environ['RAY_ADDRESS']}: {fault}") from None
                ray.init(num_cpus=cores(), include_dashboard=False, **quiet)
        self.share = share_of(work.engine)
        self.require_room()
        self.sweep = f"{os.getpid()}-{time.monotonic_ns()}"
        if "num_gpus" not in self.share:
            work = work._replace(engine=work.engine._replace(threads=self.share["num_cpus"]))
        self.work = self.ray.put(work)
        here = self.ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
            self.ray.get_runtime_context().get_node_id(), soft=False
        )
        self.news = self.ray.remote(num_cpus=0, scheduling_strategy=here)(News).remote()
        self.task = self.ray.remote(max_retries=TRIES, **self.share)(work_on)

    def require_room(self) -> None:
        """A run that fits no machine would wait for ever."""
        machines = [node["Resources"] for node in self.ray.nodes() if node["Alive"]]
        cpus, gpus = self.share["num_cpus"], self.share.get("num_gpus", 0)
        if not any(machine.get("CPU", 0) >= cpus and machine.get("GPU", 0) >= gpus for machine in machines):
            needs = f"{cpus} cores" + (" and a GPU" if gpus else "")
            raise TinyGPTError(
                f"no machine of this Ray cluster has {needs}: choose another --engine or fewer --threads"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.own:
            self.ray.shutdown()

    def describe(self) -> str:
        total = self.ray.cluster_resources()
        gpus = f", {int(total['GPU'])} GPUs" if total.get("GPU") else ""
        machines = sum(node["Alive"] for node in self.ray.nodes())
        return f"Ray {self.ray.__version__}: {machines} machines, {int(total.get('CPU', 0))} cores{gpus}"

    def do(self, runs: Sequence[Run], watch: Watch) -> Iterator[Result]:
        """In the order in which they end."""
        doing = {
            self.task.remote(self.sweep, self.work, number, run, self.news): (number, run)
            for number, run in enumerate(runs)
        }
        try:
            while doing and not watch.should_stop():
                ended, _ = self.ray.wait(list(doing), timeout=BETWEEN_NEWS)
                for number, step in self.ray.get(self.news.take.remote()).items():
                    watch.stepped(runs[number], step)
                for task in ended:
                    _, run = doing.pop(task)
                    result = self.result(task, run)
                    watch.finished(run, result)
                    yield result
        finally:
            for task in doing:
                self.ray.cancel(task, force=True)

    def result(self, task: Any, run: Run) -> Result:
        try:
            found: Result = self.ray.get(task)
        except self.ray.exceptions.RayError as fault:
            reason = str(fault).strip().splitlines()[0]
            raise TinyGPTError(f"Ray lost the run with {described(run.settings)} {TRIES + 1} times: {reason}") from None
        return found
