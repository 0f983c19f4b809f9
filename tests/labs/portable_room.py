"""Prints what a room plans, trains and checks: under MicroPython, and with NumPy."""

import json

from tinygpt.labs import room

TEXT = b"the quick brown fox jumps over the lazy dog. " * 60
for recipe in ("classic", "modern"):
    asked = json.dumps({"preset": "tiny", "recipe": recipe, "bytes": len(TEXT), "steps": 3, "seed": 1})
    planned = json.loads(room.plan(asked))
    print(planned["model"], planned["arena"], len(planned["ops"]), len(planned["slots"]))
    run = room.SpecRun(asked, TEXT.hex())
    while True:
        row = json.loads(run.step())
        if row is None:
            break
        print(f"step {row[0]} {row[1]:.9f}")
    check = room.Check(asked)
    for _ in range(4):
        row = json.loads(check.step())
        print(row["name"], row["right"])
