"""Prints where pairs of tiny runs part: under MicroPython, and with NumPy."""

import json

from tinygpt.labs.walking import Walk

TEXT = b"the quick brown fox jumps over the lazy dog. " * 60
PAIRS = (
    {"lr": 0.04},
    {"seed": 7},
    {"label_smoothing": 0.1},
    {"grad_clip": 0.0},
    {"dropout": 0.1},
    {"norm": "rmsnorm"},
)
EQUAL = {"eval_every": 3}
SOME = ({"label_smoothing": 0.1}, {"dropout": 0.1}, EQUAL)  # MicroPython takes its time


def walk(changes, text=TEXT):
    asked = {"preset": "tiny", "recipe": "classic", "bytes": len(text), "steps": 40, "changes": changes}
    return Walk(json.dumps(asked), text.hex())


def parted(one, other, steps):
    found = json.loads(other.begin(json.loads(one.describe())["weights"]))
    for _ in range(0 if found else steps):
        a, b = json.loads(one.step()), json.loads(other.step())
        if a["values"] != b["values"]:
            found = json.loads(other.parted(a["step"], a["values"], a["given"]))
            if found:
                break
    return found


def main():
    for changes in SOME:
        found = parted(walk({}), walk(changes), 1)
        if found is None:
            print(sorted(changes), "equal")
            continue
        largest = None if found["largest"] is None else f"{found['largest']:.9g}"
        print(sorted(changes), found["step"], found["place"], found["op"], found["tensor"], found["shape"], largest)
        print(f"{found['share']:.2f}", "; ".join(found["because"]), len(found["spread"]))


if __name__ == "__main__":
    main()
