"""Values in a form that does not depend on how an interpreter prints floats or dicts."""

import struct


def bits(value):
    """A float as its IEEE bytes; anything else as it is."""
    if isinstance(value, float):
        return "".join([f"{byte:02x}" for byte in struct.pack(">d", value)])
    if isinstance(value, (list, tuple)):
        return "[" + ",".join([bits(item) for item in value]) + "]"
    if isinstance(value, dict):
        return "{" + ",".join([f"{key}:{bits(value[key])}" for key in sorted(value)]) + "}"
    if isinstance(value, str) and not all(" " <= letter <= "~" for letter in value):
        return ".".join([str(ord(letter)) for letter in value])
    return str(value)
