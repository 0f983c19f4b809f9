"""`tinygpt train`: flags to settings, for a new run or a resumed one."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from tinygpt.cli import options
from tinygpt.cli.assignments import parse_assignments
from tinygpt.cli.corpora import TextFlags
from tinygpt.cli.going_on import going_on
from tinygpt.cli.help import HelpAll
from tinygpt.cli.options import OF_PRESET, engine_changes, option, with_settings
from tinygpt.cli.output import Output
from tinygpt.cli.watching import Watched, WatchEvery, watch_of
from tinygpt.core.config import ModelConfig, TrainConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.presets import FINE_TUNING
from tinygpt.engines.select import changed
from tinygpt.jobs.choices import Origin

EXAMPLES = """Examples:

\b
  tinygpt train                               small preset, Shakespeare
  tinygpt train --preset tiny --steps 300     smaller and shorter
  tinygpt train --minutes 3                   what learns most in that time here
  tinygpt train --file notes.txt --ctx 128    your own text
  tinygpt train --watch 'blocks.*.dqkv'       the gradients of q, k and v on the way
  tinygpt train --data task:addition          sums, and an exam of sums it has never seen
  tinygpt train --resume runs/small-shakespeare-1 --steps 3000
  tinygpt train --init-from runs/small-shakespeare-1 --data moby-dick
  tinygpt train --config my.toml --lr 1e-3 --set grad_clip=0.5
"""


@with_settings(ModelConfig, TrainConfig, **OF_PRESET)
def train(
    preset: options.Preset = None,
    recipe: options.Recipe = None,
    data: options.Data = None,
    file: options.TextFile = None,
    val_file: options.ValFile = None,
    val_data: options.ValData = None,
    budget: options.Budget = None,
    config: Annotated[
        Path | None, option("--config", help="settings from a TOML file; flags override them", panel="Run")
    ] = None,
    out: Annotated[
        Path | None, option("--out", help="folder of the run", default="runs/PRESET-DATA-NUMBER", panel="Run")
    ] = None,
    resume: Annotated[
        Path | None,
        option(
            "--resume",
            metavar="RUN",
            help="continue the run in this folder, or a .tinygpt file that the page saved, in a new one",
            panel="Run",
        ),
    ] = None,
    init_from: Annotated[
        Path | None,
        option(
            "--init-from",
            metavar="MODEL",
            help="fine-tune this model: a run, a file or a name; "
            f"with lr {FINE_TUNING['lr']:g}, warm-up and {FINE_TUNING['schedule']} schedule unless stated",
            panel="Run",
        ),
    ] = None,
    minutes: Annotated[
        float | None,
        option(
            "--minutes",
            help="train for that many minutes: size, batch and steps are chosen by measuring, the loss is predicted",
            panel="Run",
        ),
    ] = None,
    *,
    stated: options.Stated,
    assignments: Annotated[
        list[str] | None,
        option(
            "--set",
            metavar="NAME=VALUE",
            help="any setting, as in beta2=0.99 or sample.temperature=1; may be repeated",
            panel="Training",
        ),
    ] = None,
    engine: options.EngineName = None,
    device: options.Device = None,
    precision: options.Precision = None,
    compile: options.Compile = None,
    threads: options.Threads = None,
    without: options.Without = None,
    json: Annotated[
        bool, option("--json", help="JSON lines of events on stdout, and nothing else", panel=options.OUTPUT)
    ] = False,
    log: Annotated[
        list[str] | None,
        option(
            "--log",
            metavar="tensorboard|wandb",
            help="also log metrics to this tool, if installed",
            panel=options.OUTPUT,
        ),
    ] = None,
    watch: Watched = None,
    watch_every: WatchEvery = None,
    quiet: options.Quiet = False,
    help_all: HelpAll = False,
) -> None:
    """Train a model. A run is a folder with its config, metrics, samples, checkpoints and loss curve."""
    from tinygpt.cli.journals import check_journals
    from tinygpt.cli.training import execute
    from tinygpt.jobs.beginning import kept_name, new_job, open_base

    changes = {**stated, "sample": {}}
    for section, values in parse_assignments(assignments or []).items():
        changes[section].update(values)
    machine = engine_changes(engine, device, precision, compile, threads, without=without)
    texts = TextFlags(data, file, budget, val_data, val_file)
    output = Output(json=json, quiet=quiet)
    asked = None
    with ExitStack() as held:
        if minutes is not None:
            from tinygpt.jobs.budget import asked_minutes

            others = {"--resume": resume, "--config": config, "--init-from": init_from}
            asked = asked_minutes(minutes, preset, recipe, changes, others)
        if resume is None:
            base = None if init_from is None else open_base(Origin(kept_name(init_from)), output.warn)
            job = new_job(changes, texts.on, config=config, preset=preset, recipe=recipe, base=base, tell=output.warn)
        else:
            own = (("--preset", preset), ("--recipe", recipe), ("--config", config), ("--init-from", init_from))
            for flag, value in own:
                if value is not None:
                    raise TinyGPTError(f"{flag} does not go with --resume: the run has its settings already")
            if out is not None and resume.is_dir():
                raise TinyGPTError(
                    f"{resume} goes on in its own folder: leave out --out, or say --resume {resume}@last"
                )
            job = going_on(resume, changes, texts, output, held)
        settings = replace(job.settings, engine=changed(job.settings.engine, machine))
        job = replace(job, settings=settings, watch=watch_of(watch, watch_every))
        execute(job, output, out, asked, check_journals(log or []))
