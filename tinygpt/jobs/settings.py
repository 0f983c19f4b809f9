"""All that a run can be told, as one value: read from TOML, changed by flags, written to config.toml.

Later ones win: core's defaults, the preset by its recipe, the TOML file, `--preset` and `--recipe` given beside a file,
the other flags.
"""

from __future__ import annotations

import reprlib
import tomllib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from tinygpt.core.config import OPTIONS, LoraConfig, ModelConfig, RunConfig, SampleConfig, TrainConfig
from tinygpt.core.errors import TinyGPTError, instead
from tinygpt.core.models.adapters import require_targets
from tinygpt.core.presets import (
    DEFAULT_CORPUS,
    DEFAULT_PRESET,
    DEFAULT_RECIPE,
    EXERCISES,
    adapting_steps,
    cut_short,
    fine_tuning,
    preset,
    preset_like,
    tuned,
)
from tinygpt.core.settings import Settings, text
from tinygpt.disk.files import read_regular
from tinygpt.engines.select import EngineChoice
from tinygpt.jobs.choices import NO_TEXT, START_VALUES, DataChoice, Origin

LONGEST_CONFIG = 1 << 20  # bytes
UNSTATED_RECIPE = "classic"  # of a file: those that name none are of the time when there was no other
SECTIONS: dict[str, type[Settings]] = {"model": ModelConfig, "train": TrainConfig, "sample": SampleConfig}
# Beside core's settings of a sample: the command line and the page ask for the prompt of each one.
PROMPT = text("prompt", "\n", None, "what the samples on the way go on from")


@dataclass(frozen=True)
class TrainSettings:
    preset: str
    run: RunConfig
    recipe: str = DEFAULT_RECIPE
    sample: SampleConfig = field(default_factory=SampleConfig)
    prompt: str = PROMPT.default
    data: DataChoice = field(default_factory=DataChoice)
    validation: DataChoice = NO_TEXT  # a text of its own to validate on; else a part of `data` is held out
    origin: Origin = START_VALUES
    engine: EngineChoice = field(default_factory=EngineChoice)

    @classmethod
    def of_preset(cls, name: str, recipe: str = DEFAULT_RECIPE) -> TrainSettings:
        return cls(preset=name, recipe=recipe, run=preset(name, recipe))

    @classmethod
    def fine_tuning(cls, model: ModelConfig, recipe: str | None) -> TrainSettings:
        recipe = DEFAULT_RECIPE if recipe is None else recipe
        return cls(preset=preset_like(model), recipe=recipe, run=fine_tuning(model, recipe))

    def with_preset(self, name: str | None, recipe: str | None) -> TrainSettings:
        """What the named preset and recipe state in place of what stands here; all else stays."""
        name = self.preset if name is None else name
        recipe = self.recipe if recipe is None else recipe
        usual = RunConfig(ModelConfig(), TrainConfig()).values()
        before = {key: usual[key] for key in tuned(self.preset, self.recipe)}
        return replace(self, preset=name, recipe=recipe, run=self.run.replace(**before | tuned(name, recipe)))

    def with_options(self, model: ModelConfig) -> TrainSettings:
        """Made as that model is; what a recipe would have it made of does not count."""
        options = {name: getattr(model, name) for name in OPTIONS}
        return self.with_values("model", options)

    def with_flags(self, changes: dict[str, dict[str, Any]]) -> TrainSettings:
        """Settings by section, of a run that begins with them."""
        run = cut_short(self.run, changes["model"] | changes["train"])
        return replace(self, run=run).with_values("sample", changes["sample"])

    def with_values(self, section: str, values: dict[str, Any]) -> TrainSettings:
        if section == "sample":
            prompt = checked_prompt(values.get("prompt", self.prompt))
            others = {name: value for name, value in values.items() if name != "prompt"}
            return replace(self, prompt=prompt, sample=self.sample.replace(**others))
        model = self.run.model.replace(**values) if section == "model" else self.run.model
        train = self.run.train.replace(**values) if section == "train" else self.run.train
        return replace(self, run=RunConfig(model, train, self.run.lora))

    def for_text(self, train_bytes: int, free: frozenset[str]) -> TrainSettings:
        """What the recipe states for a text of that length, as far as it is `free` to: what nobody else has stated."""
        if self.run.lora is not None:
            suits = "steps" in free and train_bytes != EXERCISES
            return self.with_values("train", {"steps": adapting_steps(self.run, train_bytes)}) if suits else self
        usual, suited = tuned(self.preset, self.recipe), tuned(self.preset, self.recipe, train_bytes)
        changes = {name: suited[name] for name in free if suited[name] != usual[name]}
        return replace(self, run=self.run.replace(**changes))

    def with_default_text(self) -> TrainSettings:
        """The usual text, where none is named."""
        if self.data.name or self.data.file:
            return self
        return replace(self, data=self.data._replace(name=DEFAULT_CORPUS))

    def with_validation(self, text: DataChoice) -> TrainSettings:
        """Validated on that text, and trained on all of the other."""
        return replace(self, validation=text).with_values("train", {"val_fraction": 0.0})

    def checked(self) -> TrainSettings:
        """These settings, once they agree with one another."""
        if self.run.lora is not None:
            if not self.origin.model:
                raise TinyGPTError("LoRA needs a base model: name it in [origin], or leave the section [lora] out")
            require_targets(self.run.model, self.run.lora)
        fraction = self.run.train.val_fraction
        if self.validation != NO_TEXT and fraction:
            raise TinyGPTError(
                f"val_fraction {fraction:g} would hold out a part of the training text, but the run is validated on "
                f"{self.validation.describe()}: leave one of the two out"
            )
        return self

    def data_facts(self) -> dict[str, Any]:
        """For a checkpoint's header."""
        apart = {} if self.validation == NO_TEXT else {"validation": self.validation.facts()}
        return self.data.facts() | apart

    def as_toml(self) -> str:
        import tomli_w

        apart = {} if self.validation == NO_TEXT else {"validation": self.validation.stated()}
        origin = {} if self.origin == START_VALUES else {"origin": self.origin._asdict()}
        lora = {} if self.run.lora is None else {"lora": self.run.lora.as_dict()}
        return tomli_w.dumps(
            {
                "preset": self.preset,
                "recipe": self.recipe,
                "model": self.run.model.as_dict(),
                "train": self.run.train.as_dict(),
                "data": self.data.stated(),
                **apart,
                **origin,
                **lora,
                "sample": {**self.sample.as_dict(), "prompt": self.prompt},
                "engine": self.engine._asdict(),
            }
        )


def read_settings(path: Path, base: TrainSettings | None = None) -> TrainSettings:
    """The settings that a TOML file states, on top of `base` or of its preset; a fault names the file."""
    tables = read_tables(path)
    try:
        return settings_of(tables, base)
    except TinyGPTError as fault:
        raise TinyGPTError(f"{path}: {fault}") from fault


def read_tables(path: Path) -> dict[str, Any]:
    """What a TOML file says; a fault names the file."""
    try:
        content = read_regular(path, LONGEST_CONFIG)
    except (TinyGPTError, OSError) as fault:
        raise TinyGPTError(f"cannot read {path}: {getattr(fault, 'strerror', None) or fault}") from fault
    try:
        return tomllib.loads(content.decode())
    except UnicodeDecodeError as fault:
        raise TinyGPTError(f"{path} is not UTF-8 text") from fault
    except tomllib.TOMLDecodeError as fault:
        raise TinyGPTError(f"{path} is not valid TOML: {fault}") from fault
    except ValueError as fault:
        raise TinyGPTError(f"{path} holds a number that is too long") from fault
    except RecursionError as fault:
        raise TinyGPTError(f"{path} is nested too deeply") from fault


def settings_of(tables: dict[str, Any], base: TrainSettings | None = None) -> TrainSettings:
    known = ["preset", "recipe", *SECTIONS, "data", "validation", "origin", "lora", "engine"]
    for name in tables:
        if name not in known:
            raise TinyGPTError(f"there is no section '{name}'{instead(name, known)}")
    preset_name = typed("preset", tables.get("preset", DEFAULT_PRESET), str)
    recipe = typed("recipe", tables.get("recipe", UNSTATED_RECIPE), str)
    if base is None:
        settings = TrainSettings.of_preset(preset_name, recipe)
    else:
        settings = base.with_preset(preset_name, None) if "preset" in tables else base
    if "validation" in tables:
        settings = settings.with_validation(text_of(tables, "validation"))
    for section in SECTIONS:
        settings = settings.with_values(section, table(tables, section))
    if "origin" in tables:
        settings = replace(settings, origin=Origin(**typed_table("origin", table(tables, "origin"), Origin)))
    if "lora" in tables:
        lora = LoraConfig(**table(tables, "lora"))
        settings = replace(settings, run=RunConfig(settings.run.model, settings.run.train, lora))
    engine = EngineChoice(**typed_table("engine", table(tables, "engine"), EngineChoice))
    return replace(settings, data=text_of(tables, "data"), engine=engine).checked()


def text_of(tables: dict[str, Any], section: str) -> DataChoice:
    text = DataChoice(**typed_table(section, table(tables, section), DataChoice))
    if text.name and text.file:
        raise TinyGPTError(f"{section} has both a name and a file; keep one of them")
    return text


def checked_prompt(value: Any) -> str:
    prompt: str = typed("sample.prompt", value, str)
    try:
        prompt.encode()
    except UnicodeEncodeError:
        raise TinyGPTError("sample.prompt must be UTF-8 text, because the run's config.toml keeps it") from None
    return prompt


def table(tables: dict[str, Any], section: str) -> dict[str, Any]:
    return dict(typed(section, tables.get(section, {}), dict))


def typed_table(section: str, values: dict[str, Any], shape: type[NamedTuple]) -> dict[str, Any]:
    """`values`, each known to be of the type that the tuple's default has."""
    defaults: dict[str, Any] = shape._field_defaults
    for name, value in values.items():
        if name not in defaults:
            raise TinyGPTError(f"there is no {section} setting '{name}'{instead(name, list(defaults))}")
        typed(f"{section}.{name}", value, type(defaults[name]))
    return values


def typed(where: str, value: Any, kind: type) -> Any:
    names = {str: "text", int: "a whole number", bool: "true or false", dict: "a section"}
    if type(value) is not kind:  # a bool is an int to isinstance
        raise TinyGPTError(f"{where} must be {names[kind]}, not {reprlib.repr(value)}")
    return value
