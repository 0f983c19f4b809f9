"""The command line. One module per command, or a group of them; heavy imports wait until a command needs them."""


def main() -> None:
    try:
        from tinygpt.cli.interrupts import interruptible  # imports can be interrupted, too

        interruptible(command)
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def command() -> None:
    import sys

    from tinygpt.cli.editing import asks_for_an_edit, run_edited

    if asks_for_an_edit(sys.argv[1:]):
        run_edited(sys.argv[1:])
    from tinygpt.cli.app import run

    run()
