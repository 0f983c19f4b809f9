"""A folder that transformers opens: same logits, bytes as tokens, and back without loss."""

import json
import math

import numpy as np
import pytest
from format_samples import assert_same, sample_checkpoint
from safetensors.numpy import load_file, save_file

from tinygpt.core.config import ModelConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.models.parameters import parameters
from tinygpt.store.formats import load_huggingface, save_huggingface
from tinygpt.store.formats.byte_tokenizer import byte_letters
from tinygpt.store.naming import load_model

MODEL = ModelConfig(layers=2, d_model=12, heads=3, ctx=24)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hf") / "model"
    save_huggingface(folder, sample_checkpoint(MODEL))
    return folder


def plain_logits(checkpoint, tokens: list[int]) -> np.ndarray:
    """The design's model in float64, one equation per line."""
    model = checkpoint.config.model
    p = {
        row.name: checkpoint.state.w[row.offset : row.offset + row.size].reshape(row.shape).astype(np.float64)
        for row in parameters(model)
    }
    erf = np.vectorize(math.erf)

    def norm(x, name):
        centred = x - x.mean(-1, keepdims=True)
        return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * p[name + ".weight"] + p[name + ".bias"]

    def linear(x, name):
        return x @ p[name + ".weight"].T + p[name + ".bias"]

    length, size = len(tokens), model.head_size
    x = p["token_embedding.weight"][tokens] + p["position_embedding.weight"][:length]
    hidden_future = np.triu(np.full((length, length), -np.inf), 1)
    for layer in range(model.layers):
        block = f"blocks.{layer}."
        h = norm(x, block + "ln1")
        q, k, v = (linear(h, f"{block}attn.{name}_proj") for name in "qkv")
        heads = []
        for head in range(model.heads):
            part = slice(head * size, (head + 1) * size)
            scores = q[:, part] @ k[:, part].T / math.sqrt(size) + hidden_future
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            heads.append(weights / weights.sum(-1, keepdims=True) @ v[:, part])
        x = x + linear(np.concatenate(heads, -1), block + "attn.o_proj")
        h = linear(norm(x, block + "ln2"), block + "mlp.fc_in")
        x = x + linear(h * 0.5 * (1 + erf(h / math.sqrt(2))), block + "mlp.fc_out")
    return norm(x, "ln_final") @ p["token_embedding.weight"].T


def test_transformers_computes_the_same_logits(folder):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    assert type(model).__name__ == "GPT2LMHeadModel"
    tokens = list("é 日本 to be or not"[:18].encode())
    with torch.no_grad():
        logits = model(torch.tensor([tokens])).logits[0].numpy()
    expected = plain_logits(sample_checkpoint(MODEL), tokens)
    assert np.abs(expected).max() > 1
    np.testing.assert_allclose(logits, expected, atol=1e-4, rtol=0)


def test_transformers_generates_and_saves_a_folder_we_read(folder, tmp_path):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    tokens = model.generate(torch.tensor([list(b"To be")]))[0].tolist()
    assert bytes(tokens[:5]) == b"To be" and len(tokens) == 5 + MODEL.ctx // 2
    model.save_pretrained(tmp_path)
    assert_same(sample_checkpoint(MODEL), load_huggingface(tmp_path), optimizer=False)


@pytest.mark.parametrize(
    "text", ["é 日本 \n\t", "  two  spaces, it's \r\n", "\x00\x1f\x7f\xa0\xad", "<|endoftext|> 👩‍👩‍👧", "", " a b"]
)
def test_tokens_are_bytes(folder, text):
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    assert len(tokenizer) == 256
    assert tokenizer(text)["input_ids"] == list(text.encode())
    assert tokenizer.decode(list(text.encode())) == text


def test_every_byte_has_its_own_letter():
    tokenizers = pytest.importorskip("tokenizers")
    letters = byte_letters()
    assert len(set(letters)) == 256
    assert set(letters) == set(tokenizers.pre_tokenizers.ByteLevel.alphabet())


def test_the_way_back_is_exact(folder):
    assert_same(sample_checkpoint(MODEL), load_huggingface(folder), optimizer=False)
    assert_same(sample_checkpoint(MODEL), load_model(folder), optimizer=False)


def copy_with(folder, target, config=None, weights=None):
    target.mkdir(exist_ok=True)
    stated = json.loads((folder / "config.json").read_text())
    (target / "config.json").write_text(json.dumps({**stated, **(config or {})}))
    tensors = {**load_file(folder / "model.safetensors"), **(weights or {})}
    save_file({name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}, target / "model.safetensors")
    return target


def test_a_foreign_gpt2_of_our_shape_loads(folder, tmp_path):
    tied = load_file(folder / "model.safetensors")["transformer.wte.weight"]
    copy_with(folder, tmp_path, {"tinygpt": None, "n_inner": None}, {"lm_head.weight": tied})
    checkpoint = load_huggingface(tmp_path)
    np.testing.assert_array_equal(checkpoint.state.w, sample_checkpoint(MODEL).state.w)
    assert checkpoint.config.model == MODEL and checkpoint.state.step == 0


@pytest.mark.parametrize(
    ("config", "weights", "fault"),
    [
        ({"vocab_size": 50257}, {}, "vocab_size must be 256"),
        ({"model_type": "llama"}, {}, "model_type must be 'gpt2'"),
        ({"activation_function": "gelu_new"}, {}, "activation_function must be 'gelu'"),
        ({"layer_norm_epsilon": 1e-6}, {}, "layer_norm_epsilon"),
        ({"n_head": 5}, {}, "not divisible"),
        ({"n_layer": "2"}, {}, "model.layers must be a number"),
        ({"n_layer": None}, {}, "no 'n_layer'"),
        ({"n_inner": 7}, {}, "n_inner"),
        ({"n_head": 2}, {}, "describes another model"),
        ({"tinygpt": []}, {}, "tinygpt must be a JSON object"),
        ({"n_embd": 65536, "n_head": 1, "n_inner": None, "tinygpt": None}, {}, "must have shape"),
        ({}, {"lm_head.weight": np.zeros((256, 12), np.float32)}, "lm_head.weight differs"),
        ({}, {"lm_head.weight": np.zeros(3, np.float32)}, "lm_head.weight must have shape"),
        ({}, {"transformer.extra": np.zeros(3, np.float32)}, "which this model does not have"),
        ({}, {"transformer.h.0.attn.c_attn.weight": np.zeros((36, 12), np.float32)}, r"must have shape \[12, 36\]"),
    ],
)
def test_faults(folder, tmp_path, config, weights, fault):
    with pytest.raises(TinyGPTError, match=fault) as caught:
        load_huggingface(copy_with(folder, tmp_path, config, weights))
    assert str(caught.value).startswith(str(tmp_path))


def test_missing_or_broken_parts(folder, tmp_path):
    target = copy_with(folder, tmp_path)
    (target / "model.safetensors").unlink()
    with pytest.raises(TinyGPTError, match=r"model\.safetensors: there is no such file"):
        load_huggingface(target)
    for raw in (b"{", b"[]", b"[" * 100_000, b"\xff", b" " * (5 << 20)):
        (target / "config.json").write_bytes(raw)
        with pytest.raises(TinyGPTError, match=r"config\.json: "):
            load_huggingface(target)
