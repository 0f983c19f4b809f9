"""EleutherAI's evaluation harness asks the server about a small task of ours, with its client for completions."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from serving_helpers import MODEL, served

from tinygpt.cli.commands.serve import named_models
from tinygpt.store.formats import save_huggingface

pytestmark = pytest.mark.slow
SUMS = [(3, 4), (12, 7), (25, 30), (99, 1), (5, 8), (41, 16)]
TASK = """task: sums
dataset_path: json
dataset_kwargs: {data_files: {test: FILE}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{question}}"
doc_to_target: 1
doc_to_choice: choices
target_delimiter: ""
metric_list: [{metric: acc}]
"""


def test_the_model_that_adds_prefers_right_sums(tmp_path: Path) -> None:
    pytest.importorskip("lm_eval")
    rows = [{"question": f"\n{a}+{b}=", "choices": [f"{a + b + 1}\n", f"{a + b}\n"]} for a, b in SUMS]
    (tmp_path / "sums.json").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "sums.yaml").write_text(TASK.replace("FILE", str(tmp_path / "sums.json")))
    save_huggingface(tmp_path / "tokenizer", named_models([MODEL], [])[MODEL])
    with served() as server:
        model = f"model={MODEL},base_url={server.url}/v1/completions,tokenizer={tmp_path / 'tokenizer'},max_length=32"
        command = [sys.executable, "-m", "lm_eval", "--model", "local-completions", "--tasks", "sums"]
        command += ["--include_path", str(tmp_path), "--output_path", str(tmp_path / "out"), "--trust_remote_code"]
        alone = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "hf"), "OPENAI_API_KEY": "none"}
        done = subprocess.run([*command, "--model_args", model], env=alone, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    (result,) = (tmp_path / "out").rglob("results*.json")
    assert json.loads(result.read_text())["results"]["sums"]["acc,none"] == 1.0
