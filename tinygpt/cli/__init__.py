"""The command line. One module a command, or a group of them; heavy imports wait until a command needs them."""

from tinygpt.cli.app import app, main

__all__ = ["app", "main"]
