"""A GGUF file of ours in llama.cpp itself, which the package xllamacpp brings (make test-slow installs it)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tinygpt
from tinygpt.store.formats import save_model

PROMPT, BYTES, LIKELIEST = "the quick ", 20, 10
# llama.cpp computes GELU by the tanh formula, which is off by 5e-4 at most: a few such errors of a unit's size.
APART = 5e-3
PROGRAM = """
import json, sys
import xllamacpp
settings = xllamacpp.CommonParams()
settings.model.path, settings.n_ctx, settings.n_parallel, settings.verbosity = sys.argv[1], 32, 1, -1
asked = {"prompt": sys.argv[2], "max_tokens": int(sys.argv[3]), "temperature": 0, "logprobs": int(sys.argv[4])}
answer = xllamacpp.Server(settings).handle_completions({**asked, "stream": False})
print(json.dumps(answer["choices"][0]))
"""


@pytest.mark.slow
def test_llama_cpp_writes_what_the_model_does(tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp")
    text = "the quick brown fox jumps over the lazy dog. " * 200
    model = tinygpt.train(text, preset="tiny", recipe="classic", steps=60, lr=3e-3, sample_every=0, threads=1)
    save_model(tmp_path / "model.gguf", model.checkpoint)
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "model.gguf"), PROMPT, str(BYTES), str(LIKELIEST)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["text"] == model.generate(PROMPT, tokens=BYTES, temperature=0)
    first = {row["id"]: row["logprob"] for row in told["logprobs"]["content"][0]["top_logprobs"]}
    ours = np.log(model.next_bytes(PROMPT))
    assert set(first) == set(np.argsort(ours)[-LIKELIEST:].tolist())
    assert all(abs(ours[byte] - likely) < APART for byte, likely in first.items())
