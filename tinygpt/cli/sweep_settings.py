"""All that `tinygpt sweep` can be told, as one value: read from a sweep.toml, changed by flags, written to one."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tinygpt.cli.assignments import find_setting, parse_value
from tinygpt.cli.corpora import TextFlags
from tinygpt.core.config import RunConfig
from tinygpt.core.errors import TinyGPTError, instead
from tinygpt.core.presets import DEFAULT_PRESET, DEFAULT_RECIPE, preset
from tinygpt.engines.select import EngineChoice, changed
from tinygpt.jobs.choices import NO_TEXT, DataChoice
from tinygpt.jobs.settings import TrainSettings, read_tables, table, typed, typed_table
from tinygpt.sweeps.plan import PRESET, RATES, RECIPE, Axis, Plan, Values

TEXT_KEYS = ("data", "validation")
PLAN_KEYS = {"preset": str, "recipe": str, "halving": int, "whole_text": bool, "fixed": dict, "over": dict}


@dataclass(frozen=True)
class SweepSettings:
    plan: Plan = field(default_factory=lambda: Plan(over=(), recipe=DEFAULT_RECIPE))
    data: DataChoice = NO_TEXT
    validation: DataChoice = NO_TEXT
    engine: EngineChoice = field(default_factory=EngineChoice)

    def of_run(self, settings: Values, config: RunConfig) -> TrainSettings:
        """As `train` would have them for one of the runs."""
        name, recipe = settings.get(PRESET, self.plan.preset), settings.get(RECIPE, self.plan.recipe)
        return TrainSettings(name, config, recipe, data=self.data, validation=self.validation, engine=self.engine)

    def of_first(self) -> TrainSettings:
        settings = self.plan.candidates()[0]
        return self.of_run(settings, self.plan.config(settings)).checked()

    def with_texts(self, flags: TextFlags, moved: bool) -> SweepSettings:
        """`moved`: texts may have moved, but must be the same."""
        some = self.of_run({}, preset(DEFAULT_PRESET))
        chosen = flags.moved(some) if moved else flags.on(some)
        fixed = {**self.plan.fixed, "val_fraction": 0.0} if flags.apart else self.plan.fixed
        return replace(self, data=chosen.data, validation=chosen.validation, plan=replace(self.plan, fixed=fixed))

    def with_engine(self, changes: dict[str, Any]) -> SweepSettings:
        return replace(self, engine=changed(self.engine, changes))

    def as_toml(self) -> str:
        import tomli_w

        apart = {} if self.validation == NO_TEXT else {"validation": self.validation.stated()}
        tables = {"data": self.data.stated(), **apart, "engine": self.engine._asdict()}
        return tomli_w.dumps({**self.plan.as_dict(), **tables})


def read_sweep(path: Path) -> SweepSettings:
    tables = read_tables(path)
    try:
        return sweep_of(tables)
    except TinyGPTError as fault:
        raise TinyGPTError(f"{path}: {fault}") from fault


def sweep_of(tables: dict[str, Any]) -> SweepSettings:
    known = [*PLAN_KEYS, "data", "validation", "engine"]
    for name in tables:
        if name not in known:
            raise TinyGPTError(f"there is nothing called '{name}' in a sweep{instead(name, known)}")
    stated = {name: typed(name, tables[name], kind) for name, kind in PLAN_KEYS.items() if name in tables}
    axes = [Axis(name, listed_values(name, values)) for name, values in stated.pop("over", {}).items()]
    plan = Plan(over=tuple(axes), **stated)
    data, validation = (DataChoice(**typed_table(kind, table(tables, kind), DataChoice)) for kind in TEXT_KEYS)
    engine = EngineChoice(**typed_table("engine", table(tables, "engine"), EngineChoice))
    return SweepSettings(plan, data, validation, engine)


def listed_values(name: str, values: Any) -> tuple[Any, ...]:
    if not isinstance(values, list) or not values or not all(isinstance(value, (int, float, str)) for value in values):
        raise TinyGPTError(f"over.{name} must be a list of numbers or of texts")
    return tuple(values)


def changed_settings(
    settings: SweepSettings,
    over: list[str],
    fixed: Values,
    size: str | None,
    recipe: str | None,
    halving: int | None,
    whole_text: bool,
) -> SweepSettings:
    """With what the flags say on top: --over of a setting replaces its values."""
    plan = settings.plan
    axes = {axis.name: axis for axis in plan.over}
    stated = [parse_axis(text) for text in over]
    for axis in stated:
        if [other.name for other in stated].count(axis.name) > 1:
            raise TinyGPTError(f"{axis.name} is given twice; list all of its values behind one --over")
        axes[axis.name] = axis
    plan = replace(
        plan,
        over=tuple(axes.values()),
        preset=size or plan.preset,
        recipe=recipe or plan.recipe,
        fixed={**plan.fixed, **fixed},
        halving=plan.halving if halving is None else halving,
        whole_text=whole_text or plan.whole_text,
    )
    return replace(settings, plan=plan)


def parse_axis(text: str) -> Axis:
    """`lr=1e-3,3e-3`: a setting of model or training, the preset or the recipe, and values to try."""
    name, equals, listed = text.partition("=")
    values = [value.strip() for value in listed.split(",") if value.strip()]
    if not equals or not values:
        raise TinyGPTError(f"--over takes a setting and values, as in lr=1e-3,3e-3, not '{text}'")
    if name.strip() in (PRESET, RECIPE):
        return Axis(name.strip(), tuple(values))
    if name.strip() == RATES:
        return Axis(RATES, tuple(factor_of(value) for value in values))
    section, setting = find_setting(name.strip())
    if section == "sample":
        raise TinyGPTError(f"{setting.name} is about samples, which a sweep does not compare; vary model or training")
    return Axis(setting.name, tuple(parse_value(setting, value) for value in values))


def factor_of(text: str) -> float:
    try:
        factor = float(text)
    except ValueError:
        factor = 0.0
    if not 0 < factor < 1000:
        raise TinyGPTError(f"rates are factors of the recipe's learning rates, as in rates=0.5,1,2, not '{text}'")
    return factor
