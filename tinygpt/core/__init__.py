"""The part of TinyGPT that runs unchanged in CPython and in MicroPython (the browser tab).

Nothing in this folder imports anything but `math` and `collections`; there are no
`dataclasses`, no `typing`, and no reliance on dict order. See docs/architecture.md.
"""
