"""Tasks by name: task:addition, task:addition:3, task:modular-addition:59,train=40,seed=7."""

from tinygpt.core.errors import TinyGPTError, instead
from tinygpt.core.tasks.letters import BRACKETS, COPYING, REPEATING, REVERSING, SORTING, TEMPORAL_ORDER
from tinygpt.core.tasks.numbers import ADDITION, MODULAR_ADDITION, PARITY, SUMS, TWO_SUM
from tinygpt.core.tasks.task import END, PREFIX, Exercises, Task

TASKS = (
    ADDITION,
    SUMS,
    MODULAR_ADDITION,
    SORTING,
    REVERSING,
    COPYING,
    REPEATING,
    PARITY,
    BRACKETS,
    TWO_SUM,
    TEMPORAL_ORDER,
)
SYNTAX = "task:NAME[:DIFFICULTY][,train=PERCENT][,seed=NUMBER]"


def is_task(name: str) -> bool:
    return name.startswith(PREFIX)


def prompted(text_name: str, prompt: bytes) -> bytes:
    """What a model that has learned that text is to read. Of a task it knows lines: without a line break before it, it
    takes a question for the end of a longer one."""
    return END.encode() + prompt if is_task(text_name) and prompt[:1] != END.encode() else prompt


def task_named(name: str) -> Task:
    for task in TASKS:
        if task.name == name:
            return task
    raise TinyGPTError(f"there is no task '{name}'{instead(name, [task.name for task in TASKS])}")


def exercises(name: str) -> Exercises:
    """Those of a name as SYNTAX has it."""
    first, *options = name[len(PREFIX) :].split(",")
    parts = first.split(":")
    task = task_named(parts[0])
    values = {"difficulty": task.default, "train": task.train, "seed": 0}
    if len(parts) > 1:
        values["difficulty"] = number(name, ":".join(parts[1:]))
    for option in options:
        key, _, value = option.partition("=")
        if key not in ("train", "seed"):
            raise TinyGPTError(f"'{name}' has the option '{key}', but a task has train and seed: write {SYNTAX}")
        values[key] = number(name, value)
    return Exercises(task, values["difficulty"], values["seed"], values["train"])


def number(name: str, digits: str) -> int:
    if not digits.isdigit() or len(digits) > 10:
        raise TinyGPTError(f"'{name}' has '{digits}' where a whole number belongs: write {SYNTAX}")
    return int(digits)
