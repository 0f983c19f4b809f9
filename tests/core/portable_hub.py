"""Prints how datasets are asked for and read, for test_micropython.py to compare."""

import json

from tinygpt.core.errors import TinyGPTError
from tinygpt.core.hub.answers import read_page
from tinygpt.core.hub.names import Rows, address, parse_hub_name, parse_typed
from tinygpt.core.hub.reading import Reading, whole_strings
from tinygpt.core.tab.texts import Visit, advice

for typed in (
    "owner/name",
    " hf:o/n.a-b_c/con fig:train#the column#2 ",
    "https://huggingface.co/datasets/o/n/viewer/default/train?p=1#x",
    "name",
    "o/n/a/b",
    "o/n:",
    "o/n#",
    "ö/n",
    "",
):
    try:
        print(sorted([str(pair) for pair in parse_typed(typed).as_dict().items()]))
    except TinyGPTError as error:
        print("refused:", error)
print(parse_hub_name("hf:o/n") == Rows("o/n"), address("/rows", [("config", "a b&ü/"), ("offset", 100)]))
print("|".join(whole_strings('["Long", "a \\"q\\"\n", "\\u00e9", "lo')))

STRING = {"dtype": "string", "_type": "Value"}


def answer(rows, features=None):
    stated = features or {"id": {"dtype": "int64"}, "text": STRING, "tags": [STRING]}
    return {
        "features": [{"name": name, "type": stated[name]} for name in sorted(stated)],
        "rows": [{"row": row, "truncated_cells": []} for row in rows],
        "num_rows_total": 6,
    }


ROWS = [{"text": "\r\n€uro\r\nb\n", "id": 1, "tags": ["x", "y"]}, {"text": " ", "id": 2, "tags": None}]
for budget in (3, 8, 9, 10, 11, 100):
    reading = Reading(Rows("o/n", "default", "train"), budget)
    text = b""
    while not reading.done:
        text += reading.take(read_page("o/n", answer(ROWS)))
    print(text, reading.describe(), reading.ask())


def visit(replies, **request):
    asked = {
        "dataset": "o/n",
        "config": None,
        "split": None,
        "column": None,
        "look": False,
        "budget": 100,
        "token": False,
    }
    asked.update(request)
    one = Visit(json.dumps(asked))
    said = json.loads(one.step("", ""))
    for status, content in replies:
        print(said.get("address"), said.get("wait"), said.get("text"), said.get("rows"), said.get("error"))
        if "address" in said:
            body = content if isinstance(content, str) else json.dumps(content)
            said = json.loads(one.step(json.dumps({"status": status, "wait": 7 if status == 429 else 0}), body))
    done = said.get("done") or {}
    print(json.dumps([[name, done[name]] for name in sorted(done)]), said.get("text"), said.get("error"))


ROWS[0]["text"] = "plain\r\nb"  # the two print other letters differently
SPLITS = {"splits": [{"config": "b", "split": "test"}, {"config": "default", "split": "train"}]}
PAGE = answer(ROWS * 3)
visit([(200, SPLITS), (200, PAGE)])
visit([(200, SPLITS), (200, PAGE)], look=True)
visit([(200, SPLITS), (200, answer(ROWS, {"a": STRING, "b": STRING}))], look=True, config="b")
visit([(200, SPLITS)], config="c")
visit([(200, answer(ROWS * 3))], config="default", split="train", column="tags")
visit([(200, PAGE)], config="default", split="train", column="id")
visit([(200, PAGE)], config="default", split="train", column="Text")
visit([(429, {"error": "Too many."}), (503, ""), (0, ""), (200, PAGE)], config="default", split="train", column="text")
visit([(0, ""), (0, ""), (0, "")])
for status in (401, 404, 422, 200):
    visit([(status, "<html>")], token=status == 401)
visit([(200, {"rows": 7})], config="default", split="train")
visit([], dataset="nothing")

for size, start, changes in ((100, b"abc", {}), (20, b"\xff\xfea\0", {}), (2000000, b"", {"val_fraction": 0.5})):
    request = {"preset": "tiny", "recipe": "modern", "changes": changes, "bytes": size, "start": list(start)}
    print(json.loads(advice(json.dumps(request))))
