"""What `train` does once its flags are understood: a session of `tinygpt.jobs`, shown at a terminal."""

from __future__ import annotations

from contextlib import ExitStack, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from tinygpt.cli.corpora import open_texts
from tinygpt.cli.interrupts import INTERRUPTED, stop_signals
from tinygpt.cli.journals import open_journals
from tinygpt.cli.output import Output
from tinygpt.cli.reports import RunReport
from tinygpt.cli.screen import Screen
from tinygpt.jobs.session import Job, Session, prepared_folder
from tinygpt.jobs.texts import OF_CONFIG, OF_RESUMED
from tinygpt.store.runs import require_free

if TYPE_CHECKING:
    from tinygpt.jobs.budget import Minutes


def execute(
    job: Job,
    output: Output,
    out: Path | None = None,
    minutes: Minutes | None = None,
    journals: tuple[str, ...] = (),
) -> None:
    """Train to the end, or to Ctrl-C; a new run in `out` (None: a numbered folder), one for `minutes` as chosen."""
    output.outlive()
    if out is not None:
        require_free(out)  # before the slow parts, and in every process of torchrun
    texts = open_texts(job.settings, output, remedy=OF_CONFIG if job.resumed is None else OF_RESUMED)
    foreseen = None
    if minutes is not None:
        from tinygpt.cli.budgeting import foresee

        chosen, foreseen = foresee(minutes, job.settings, texts, output)
        job = replace(job, settings=chosen, free=frozenset())
    session = Session(job, texts)
    with ExitStack() as held:
        folder = held.enter_context(prepared_folder(job, session, out) if output.main else nullcontext())
        told = held.enter_context(open_journals(journals, folder, session.settings))
        display = output.display(session.settings.preset)
        report = RunReport(output, session, folder, display, foreseen)
        report.before()
        with stop_signals(display.stop_soon, session.engine.stop) as stop:
            screen = Screen(folder, output, stop, report, told)
            reason = session.train(folder, screen, None if foreseen is None else foreseen.pace())
        report.after(reason, screen.train_loss(), len(screen.last_losses))
    output.require_stdout()
    if reason == "stopped":
        raise typer.Exit(INTERRUPTED)
