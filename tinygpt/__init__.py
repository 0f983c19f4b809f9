"""TinyGPT: a byte-level GPT you can train from scratch, with every line open."""

TYPE_CHECKING = False  # MicroPython reads this file too, and has no typing
if TYPE_CHECKING:
    from typing import Any

    from tinygpt.api import Model, corpus, load, look, train
    from tinygpt.notebook import LiveCurve

__version__ = "0.1.0"
__all__ = ["LiveCurve", "Model", "__version__", "corpus", "load", "look", "train"]


def __getattr__(name: str) -> "Any":
    """What a program asks for is loaded when it does: the command line has no use for it."""
    if name not in __all__:
        raise AttributeError(f"module 'tinygpt' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module("tinygpt.notebook" if name == "LiveCurve" else "tinygpt.api"), name)
