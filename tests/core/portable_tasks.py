"""Prints what tasks make up, for test_micropython.py to compare."""

from tinygpt.core.errors import TinyGPTError
from tinygpt.core.tasks import TASKS, exercises

for task in TASKS:
    for options in ("", f":{task.low}", f":{task.high}", ",seed=4294967295,train=60"):
        made = exercises("task:" + task.name + options)
        print(made.name, made.describe())
        for held_out in (False, True):
            print(made.text(held_out, 300))
        print(made.exam(10))

for wrong in (
    "task:",
    "task:additon",
    "task:parity:5",
    "task:parity:25",
    "task:addition:two",
    "task:addition:2:3",
    "task:addition,train=100",
    "task:addition,seed=-1",
    "task:addition,seed=4294967296",
    "task:addition,sed=1",
):
    try:
        exercises(wrong)
        print("accepted")
    except TinyGPTError as error:
        print("refused:", error)
