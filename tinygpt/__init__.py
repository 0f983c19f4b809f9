"""TinyGPT: a byte-level GPT you can train from scratch, with every line open."""

__version__ = "0.1.0"
