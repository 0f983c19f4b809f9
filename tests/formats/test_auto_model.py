"""A folder with code of ours: transformers computes what our engines compute, for any model, without TinyGPT."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from format_samples import assert_same, sample_checkpoint

from tinygpt.api.model import Model
from tinygpt.core.config import ModelConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.models.memory import table_shape
from tinygpt.engines.base import Tables
from tinygpt.store.formats import Checkpoint, load_huggingface, save_huggingface
from tinygpt.store.formats.auto_model import sources

SMALL = ModelConfig(layers=2, d_model=12, heads=3, ctx=24)
MODELS = {
    "modern": SMALL.replace(positions="rotary", qk_norm="on", ngrams="2,3,4,5", ngram_rows=256, ngram_width=4),
    "gated": SMALL.replace(norm="rmsnorm", activation="swiglu", positions="alibi", kv_heads=1, tied_head="off"),
    "post": SMALL.replace(norm_place="post", activation="relu2", biases="off", logit_cap=30.0, positions="rotary"),
    "recurrent": SMALL.replace(kind="recurrent"),
    "bigram": ModelConfig(kind="bigram", ctx=24),
}
TEXT = "To be, or not to be: é"
RTOL = 1e-5  # of logits


def checkpoint_of(model: ModelConfig) -> Checkpoint:
    plain = sample_checkpoint(model, optimizer=False)
    if not model.ngram_tables:
        return plain
    rows = np.random.default_rng(5).standard_normal(table_shape(model), dtype=np.float32)
    return replace(plain, state=plain.state._replace(tables=Tables(rows)))


def opened(folder: Path) -> transformers.PreTrainedModel:
    return transformers.AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True)


@pytest.mark.parametrize("name", MODELS)
def test_transformers_computes_what_our_engines_do_and_the_way_back_is_exact(name: str, tmp_path: Path) -> None:
    checkpoint = checkpoint_of(MODELS[name])
    save_huggingface(tmp_path, checkpoint)
    model = opened(tmp_path)
    assert type(model).__name__ == "TinyGPTForCausalLM"
    ours = Model(checkpoint)
    tokens = torch.tensor([list(TEXT.encode())])
    with torch.no_grad():
        logits = model(tokens).logits[0].double()
    for end in (1, 2, 5, len(TEXT)):
        read = TEXT[:end].encode()
        expected = np.log(ours.next_bytes(read.decode()).astype(np.float64))
        got = logits[len(read) - 1].log_softmax(-1).numpy()
        likely = expected > np.log(1e-6)  # others have few digits left in float32
        np.testing.assert_allclose(got[likely], expected[likely], rtol=RTOL, atol=RTOL * logits.abs().max().item())
    assert_same(checkpoint, load_huggingface(tmp_path), optimizer=False)
    model.save_pretrained(tmp_path / "again")
    assert_same(checkpoint, load_huggingface(tmp_path / "again"), optimizer=False)


def test_padding_is_not_read_and_longer_texts_slide(tmp_path: Path) -> None:
    save_huggingface(tmp_path, checkpoint_of(MODELS["modern"]))
    model = opened(tmp_path)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path, trust_remote_code=True)
    assert tokenizer(TEXT)["input_ids"] == list(TEXT.encode()) and tokenizer.decode(list(TEXT.encode())) == TEXT
    short, long = list(b"To be"), list(b"or not to be")
    pad = len(long) - len(short)
    for mask, row in (
        ([0] * pad + [1] * len(short), [0] * pad + short),
        ([1] * len(short) + [0] * pad, short + [0] * pad),
    ):
        with torch.no_grad():
            both = model(torch.tensor([row, long]), attention_mask=torch.tensor([mask, [1] * len(long)])).logits
            for logits, tokens, real in ((both[0], short, mask), (both[1], long, [1] * len(long))):
                alone = model(torch.tensor([tokens])).logits[0]
                torch.testing.assert_close(logits[torch.tensor(real).bool()], alone)
    settings = {"do_sample": False, "max_new_tokens": 40, "pad_token_id": 0}
    written = model.generate(torch.tensor([long]), **settings)[0].tolist()
    expected = list(long)
    for _ in range(40):
        with torch.no_grad():
            expected.append(int(model(torch.tensor([expected[-SMALL.ctx :]])).logits[0, -1].argmax()))
    assert written == expected
    loss = model(torch.tensor([long]), labels=torch.tensor([long])).loss
    assert loss.requires_grad and loss.item() > 0


def test_the_code_needs_no_tinygpt() -> None:
    for text in sources().values():
        assert "from tinygpt" not in text and "import tinygpt" not in text
        compile(text, "exported", "exec")


def test_a_config_without_its_description_is_said(tmp_path: Path) -> None:
    save_huggingface(tmp_path, checkpoint_of(MODELS["gated"]))
    config = json.loads((tmp_path / "config.json").read_text())
    del config["tinygpt"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(TinyGPTError, match="it has no 'tinygpt', which says how the model was made; export it again"):
        load_huggingface(tmp_path)
