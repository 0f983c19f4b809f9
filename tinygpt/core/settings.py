"""Named values with a default, bounds and a one-line help, checked when they are made."""

from collections import namedtuple

from tinygpt.core.errors import TinyGPTError, instead

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    S = TypeVar("S", bound="Settings")

# kind: int | float | text; choices: None, or the texts that are allowed. label: what the page calls it.
# fixed: a model has it for life, all others may change whenever training goes on.
Field = namedtuple("Field", ("name", "kind", "default", "low", "high", "choices", "help", "label", "fixed"))


def whole(name: str, default: int, low: int, high: int, help: str, label: str = "", fixed: bool = False) -> Field:
    return Field(name, "int", default, low, high, None, help, label or name, fixed)


def real(name: str, default: float, low: float, high: float, help: str, label: str = "", fixed: bool = False) -> Field:
    return Field(name, "float", default, low, high, None, help, label or name, fixed)


def text(
    name: str, default: str, choices: tuple[str, ...] | None, help: str, label: str = "", fixed: bool = False
) -> Field:
    return Field(name, "text", default, None, None, choices, help, label or name, fixed)


class Settings:
    """A fixed set of named, checked values; `replace` makes a changed copy."""

    SECTION = ""
    FIELDS: tuple[Field, ...] = ()

    def __init__(self, **values: "Any") -> None:
        names = [field.name for field in self.FIELDS]
        for name in values:
            if name not in names:
                raise TinyGPTError(f"there is no {self.SECTION} setting '{name}'{instead(name, names)}")
        for field in self.FIELDS:
            setattr(self, field.name, checked(self.SECTION, field, values.get(field.name, field.default)))
        self.validate()

    def validate(self) -> None:
        """Check what involves more than one field."""

    def as_dict(self) -> "dict[str, Any]":
        return {field.name: getattr(self, field.name) for field in self.FIELDS}

    def replace(self: "S", **changes: "Any") -> "S":
        values = self.as_dict()
        values.update(changes)
        return self.__class__(**values)

    def going_on(self: "S", **changes: "Any") -> "S":
        """A changed copy for a run that goes on, where nothing changes that a model has for life."""
        for field in self.FIELDS:
            own = getattr(self, field.name)
            if field.fixed and changes.get(field.name, own) != own:
                raise TinyGPTError(
                    f"a run that goes on keeps its {field.name}: {own} cannot become {changes[field.name]}; "
                    f"start a new run"
                )
        return self.replace(**changes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Settings) and self.SECTION == other.SECTION and self.as_dict() == other.as_dict()

    def __hash__(self) -> int:
        return hash(tuple([getattr(self, field.name) for field in self.FIELDS]))

    def __repr__(self) -> str:
        inside = ", ".join([f"{field.name}={getattr(self, field.name)!r}" for field in self.FIELDS])
        return f"{self.__class__.__name__}({inside})"


def checked(section: str, field: Field, value: "Any") -> "Any":
    """`value` as the field's kind, or a sentence on why it cannot be."""
    where = f"{section}.{field.name}"
    if field.kind == "text":
        if field.choices is not None and value not in field.choices:
            raise TinyGPTError(f"{where} must be one of {', '.join(field.choices)}, not {value!r}")
        if not isinstance(value, str):
            raise TinyGPTError(f"{where} must be text, not {value!r}")
        return value
    # bool is an int in CPython and is not in MicroPython: refuse it in both.
    if value is True or value is False or not isinstance(value, (int, float)):
        raise TinyGPTError(f"{where} must be a number, not {value!r}")
    if field.kind == "int":
        if value != value or value in (float("inf"), float("-inf")) or int(value) != value:
            raise TinyGPTError(f"{where} must be a whole number, not {value!r}")
        value = int(value)
    else:
        value = float(value)
    if not field.low <= value <= field.high:  # false for NaN too
        raise TinyGPTError(f"{where} must be from {field.low} to {field.high}, not {value!r}")
    return value
