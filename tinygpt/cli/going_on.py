"""`--resume`: a run in its folder, or a file as a page saves them."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import typer

from tinygpt.cli.corpora import TextFlags
from tinygpt.cli.output import Output
from tinygpt.jobs.beginning import Changes
from tinygpt.jobs.choices import Origin
from tinygpt.jobs.resuming import NothingLeft, draw_missing, resumed_file, resumed_job
from tinygpt.jobs.session import Job
from tinygpt.store.runs import RunFolder


def going_on(
    resume: Path, changes: Changes, texts: TextFlags, output: Output, held: ExitStack, moved: Origin | None = None
) -> Job:
    """The run to go on with, whose folder is kept in `held`; where nothing is left to do, a sentence and the end."""
    try:
        if not resume.is_dir():
            return resumed_file(resume, changes, texts.moved, output.warn)
        folder = held.enter_context(RunFolder.open(resume))
        if output.main:
            folder.lock()
            draw_missing(folder)
        return resumed_job(folder, changes, texts.moved, output.warn, moved)
    except NothingLeft as finished:
        output.hint(str(finished))
        raise typer.Exit from None
