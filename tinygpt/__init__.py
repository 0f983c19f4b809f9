"""TinyGPT: a byte-level GPT you can train from scratch, with every line open."""

from tinygpt.core.edited import version_with

TYPE_CHECKING = False  # MicroPython reads this file too, and has no typing
if TYPE_CHECKING:
    from typing import Any

    from tinygpt.api.model import Model, corpus, load, look
    from tinygpt.api.notebook import LiveCurve
    from tinygpt.api.training import resume, train
    from tinygpt.core.errors import TinyGPTError

RELEASE = "0.1.0"
__version__ = version_with(RELEASE)
__all__ = ["LiveCurve", "Model", "TinyGPTError", "__version__", "corpus", "load", "look", "resume", "train"]
WHERE = {"LiveCurve": "api.notebook", "TinyGPTError": "core.errors", "resume": "api.training", "train": "api.training"}


def __dir__() -> "list[str]":
    return __all__


def __getattr__(name: str) -> "Any":
    """What a program asks for is loaded when it does: the command line has no use for it."""
    if name not in __all__:
        raise AttributeError(f"module 'tinygpt' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module(f"tinygpt.{WHERE.get(name, 'api.model')}"), name)
