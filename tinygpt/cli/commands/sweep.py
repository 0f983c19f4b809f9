"""`tinygpt sweep`: flags to a plan, for a new sweep or one that goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from tinygpt.cli import options
from tinygpt.cli.corpora import TextFlags
from tinygpt.cli.help import HelpAll
from tinygpt.cli.options import OF_PRESET, engine_changes, option, with_settings
from tinygpt.cli.output import Output
from tinygpt.core.config import ModelConfig, TrainConfig
from tinygpt.core.errors import TinyGPTError

PANEL = "Sweep"

EXAMPLES = """Examples:

\b
  tinygpt sweep --over lr=1e-3,3e-3,1e-2
  tinygpt sweep --over lr=1e-3,3e-3,1e-2 --over warmup=0,100 --over seed=1,2,3
  tinygpt sweep --preset tiny --over lr=1e-4,3e-4,1e-3,3e-3,1e-2,3e-2 --halving 3
  tinygpt sweep --over preset=tiny,small,medium --steps 500 --whole-text
  tinygpt sweep --over optimizer=adamw,muon --schedule cosine --jobs 2
  tinygpt sweep --over seed=1,2,3,4,5,6,7,8 --engine native --on ray
  tinygpt sweep --resume runs/sweep-shakespeare-1
"""


@with_settings(ModelConfig, TrainConfig, **OF_PRESET)
def sweep(
    over: Annotated[
        list[str] | None,
        option(
            "--over",
            metavar="NAME=VALUE,VALUE",
            help="try these values of a setting, of preset or recipe; repeated: every combination; seeds are averaged",
            panel=PANEL,
        ),
    ] = None,
    halving: Annotated[
        int | None,
        option(
            "--halving",
            metavar="N",
            help="short runs first; the best N-th part goes on, anew and N times longer, to the whole length",
            default="every run whole",
            panel=PANEL,
        ),
    ] = None,
    whole_text: Annotated[
        bool,
        option(
            "--whole-text",
            help="compare by the loss of every held-out byte: fair where batch, ctx or preset differ",
            default="the best validation",
            panel=PANEL,
        ),
    ] = False,
    jobs: Annotated[int, option("--jobs", help="processes at once, which share the CPU", default="1", panel=PANEL)] = 1,
    on: Annotated[
        str | None, option("--on", help="ray: on all machines of a Ray cluster", default="this machine", panel=PANEL)
    ] = None,
    out: Annotated[
        Path | None, option("--out", help="folder of the sweep", default="runs/sweep-DATA-NUMBER", panel=PANEL)
    ] = None,
    resume: Annotated[
        Path | None, option("--resume", help="continue the sweep in this folder, or show it", panel=PANEL)
    ] = None,
    config: Annotated[Path | None, option("--config", help="a sweep.toml to do again", panel=PANEL)] = None,
    keep: Annotated[bool, option("--keep", help="keep each run's folder, with its model", panel=PANEL)] = False,
    preset: options.Preset = None,
    recipe: options.Recipe = None,
    data: options.Data = None,
    file: options.TextFile = None,
    budget: options.Budget = None,
    val_data: options.ValData = None,
    val_file: options.ValFile = None,
    *,
    stated: options.Stated,
    engine: options.EngineName = None,
    device: options.Device = None,
    precision: options.Precision = None,
    compile: options.Compile = None,
    threads: options.Threads = None,
    json: Annotated[
        bool, option("--json", help="JSON lines of results on stdout, and nothing else", panel=options.OUTPUT)
    ] = False,
    quiet: options.Quiet = False,
    help_all: HelpAll = False,
) -> None:
    """Train many models that differ in some settings, and compare them. A sweep is a folder; Ctrl-C keeps what is done.

    Every run is compared by its best validation loss. With --halving the runs of each round start anew, because a
    learning-rate schedule that was cut off, or stretched, would not be the one that is to be judged.
    """
    from tinygpt.cli.sweep_settings import SweepSettings, changed_settings, read_sweep
    from tinygpt.cli.sweeping import Job, execute
    from tinygpt.sweeps import SweepFolder

    output = Output(json=json, quiet=quiet)
    if jobs < 1:
        raise TinyGPTError(f"--jobs must be at least 1, not {jobs}")
    if on not in (None, "ray"):
        raise TinyGPTError(f"--on takes ray, not '{on}'")
    if on and jobs > 1:
        raise TinyGPTError("--jobs does not go with --on ray: as many runs go on at once as the cluster has room for")
    if on and keep:
        raise TinyGPTError("--keep does not go with --on ray: each run's folder would be on another machine's disk")
    texts = TextFlags(data, file, budget, val_data, val_file)
    machine = engine_changes(engine, device, precision, compile, threads)
    fixed = {**stated["model"], **stated["train"]}
    if resume is not None:
        flags = {
            "over": over,
            "halving": halving,
            "preset": preset,
            "recipe": recipe,
            "out": out,
            "config": config,
            **fixed,
        }
        flags |= {"whole-text": whole_text or None, "engine": engine}
        flags |= {name: value for name, value in machine.items() if name != "name"}
        for name, value in flags.items():
            if value is not None:
                raise TinyGPTError(
                    f"--{name.replace('_', '-')} does not go with --resume: the sweep has its settings already"
                )
        with SweepFolder.open(resume) as folder:
            folder.lock()
            settings = read_sweep(folder.plan).with_texts(texts, moved=True)
            execute(Job(settings, jobs=jobs, keep=keep, on_ray=bool(on), folder=folder), output)
        return
    settings = read_sweep(config) if config is not None else SweepSettings()
    settings = changed_settings(settings, over or [], fixed, preset, recipe, halving, whole_text)
    settings = settings.with_texts(texts, moved=False).with_engine(machine)
    execute(Job(settings, jobs=jobs, keep=keep, on_ray=bool(on), out=out), output)
