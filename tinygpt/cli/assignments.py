"""`--set name=value`: any setting of a run."""

from __future__ import annotations

from typing import Any

from tinygpt.core.errors import TinyGPTError, instead
from tinygpt.core.settings import Field
from tinygpt.jobs.settings import PROMPT, SECTIONS


def parse_assignments(assignments: list[str]) -> dict[str, dict[str, Any]]:
    """`--set name=value` of any section; a name that two sections have means the one of train."""
    result: dict[str, dict[str, Any]] = {section: {} for section in SECTIONS}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals:
            raise TinyGPTError(f"--set takes name=value, not '{assignment}'")
        section, setting = find_setting(name.strip())
        result[section][setting.name] = parse_value(setting, value)
    return result


def find_setting(name: str) -> tuple[str, Field]:
    known: dict[str, tuple[str, Field]] = {}
    for section in ("train", "model", "sample"):
        for setting in settable(section):
            known[f"{section}.{setting.name}"] = (section, setting)
            known.setdefault(setting.name, (section, setting))
    if name not in known:
        short = [name for name in known if "." not in name]
        raise TinyGPTError(f"there is no setting '{name}'{instead(name.rpartition('.')[2], short)}")
    return known[name]


def settable(section: str) -> tuple[Field, ...]:
    return (*SECTIONS[section].FIELDS, PROMPT) if section == "sample" else SECTIONS[section].FIELDS


def parse_value(setting: Field, value: str) -> Any:
    if setting is PROMPT:
        return value  # its spaces count
    value = value.strip()
    if setting.kind == "text":
        return value
    try:
        return int(value) if setting.kind == "int" else float(value)
    except ValueError:
        kind = "a whole number" if setting.kind == "int" else "a number"
        raise TinyGPTError(f"{setting.name} must be {kind}, not '{value}'") from None
