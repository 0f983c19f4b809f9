"""The command line. One module per command, or a group of them; heavy imports wait until a command needs them."""


def main() -> None:
    try:
        from tinygpt.cli.interrupts import interruptible  # imports can be interrupted, too

        interruptible(command)
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def command() -> None:
    from tinygpt.cli.app import run

    run()
