"""A folder that transformers opens, with a byte tokenizer, and the way back.

A model of GPT-2's shape (recipe classic) is a GPT2LMHeadModel; any other brings its own code along (auto_model.py).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tinygpt.core.config import LAYERNORM_EPS, VOCAB, ModelConfig, RunConfig, SampleConfig, TrainConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.file.header import Run, decode_run
from tinygpt.core.file.strict_json import LONGEST_TEXT, json_object, parse_object
from tinygpt.core.models.parameters import Parameter, parameter_count, parameters
from tinygpt.core.names import is_linear_weight
from tinygpt.core.train.progress import Progress
from tinygpt.disk.atomic import replacing
from tinygpt.disk.files import decoded, faults_of, read_regular
from tinygpt.engines.base import FloatArray, State
from tinygpt.store.formats.auto_model import MODEL_TYPE, auto_config, write_sources
from tinygpt.store.formats.auto_model import PREFIX as PREFIX_OF_OURS
from tinygpt.store.formats.byte_tokenizer import tokenizer_config_json, tokenizer_json
from tinygpt.store.formats.checkpoint import Checkpoint, checked_state, weights_alone, with_state
from tinygpt.store.formats.plain_json import Json, dumps
from tinygpt.store.formats.safetensors_file import describe_run, described_step, named_tensors, read_state
from tinygpt.store.formats.tensor_file import TensorFile, open_tensors, write_tensors

CONFIG_FILE = "config.json"
WEIGHTS_FILE = "model.safetensors"
DESCRIPTION_KEY = "tinygpt"  # where config.json keeps what GPT-2's config has no word for
PREFIX = "transformer."
# What these may not differ in, or the same weights would compute something else.
REQUIRED: Json = {
    "model_type": "gpt2",
    "vocab_size": VOCAB,
    "activation_function": "gelu",  # the exact one, with erf
    "layer_norm_epsilon": LAYERNORM_EPS,
    "tie_word_embeddings": True,
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "add_cross_attention": False,
}


class Joined(NamedTuple):
    """A tensor of GPT-2's and those of ours that lie side by side in it along its last dimension."""

    name: str
    parts: list[Parameter]

    @property
    def shape(self) -> tuple[int, ...]:
        """GPT-2's Conv1D holds a linear weight as [in, out]."""
        first = self.parts[0].shape[::-1] if is_linear_weight(self.parts[0].name) else self.parts[0].shape
        return (*first[:-1], first[-1] * len(self.parts))


def joined_tensors(model: ModelConfig) -> list[Joined]:
    ours = {row.name: row for row in parameters(model)}
    names = {
        "wte.weight": ["token_embedding.weight"],
        "wpe.weight": ["position_embedding.weight"],
        "ln_f.weight": ["ln_final.weight"],
        "ln_f.bias": ["ln_final.bias"],
    }
    for layer in range(model.layers):
        for theirs, parts in (
            ("ln_1", ["ln1"]),
            ("attn.c_attn", ["attn.q_proj", "attn.k_proj", "attn.v_proj"]),
            ("attn.c_proj", ["attn.o_proj"]),
            ("ln_2", ["ln2"]),
            ("mlp.c_fc", ["mlp.fc_in"]),
            ("mlp.c_proj", ["mlp.fc_out"]),
        ):
            for kind in ("weight", "bias"):
                names[f"h.{layer}.{theirs}.{kind}"] = [f"blocks.{layer}.{part}.{kind}" for part in parts]
    return [Joined(PREFIX + theirs, [ours[part] for part in parts]) for theirs, parts in names.items()]


def save_huggingface(folder: str | os.PathLike[str], checkpoint: Checkpoint) -> None:
    """Make or refresh the folder; config.json comes last, so that a broken-off export is not taken for a model."""
    with faults_of(folder, "write"):
        model = checkpoint.config.model
        state = checked_state(weights_alone(checkpoint))
        target = Path(folder)
        target.mkdir(parents=True, exist_ok=True)
        if is_gpt2(model):
            tensors = {joined.name: join(state.w, joined) for joined in joined_tensors(model)}
        else:
            tensors = {PREFIX_OF_OURS + name: values for name, values in named_tensors(model, state).items()}
            write_sources(target)
        write_tensors(target / WEIGHTS_FILE, tensors, {"format": "pt"})
        write_json(target / "tokenizer.json", tokenizer_json())
        write_json(target / "tokenizer_config.json", tokenizer_config_json(model.ctx))
        write_json(target / "generation_config.json", generation_json(model))
        write_json(target / CONFIG_FILE, config_json(checkpoint))


def is_gpt2(model: ModelConfig) -> bool:
    """Whether GPT-2 computes the same with these weights."""
    return not model.options()


def join(w: FloatArray, joined: Joined) -> FloatArray:
    tensors = [w[row.offset : row.offset + row.size].reshape(row.shape) for row in joined.parts]
    if is_linear_weight(joined.parts[0].name):
        tensors = [tensor.T for tensor in tensors]
    return np.concatenate(tensors, axis=-1)


def split(values: FloatArray, joined: Joined, w: FloatArray) -> None:
    """The inverse of `join`, into `w`."""
    for row, part in zip(joined.parts, np.split(values, len(joined.parts), axis=-1), strict=True):
        tensor = part.T if is_linear_weight(row.name) else part
        w[row.offset : row.offset + row.size] = tensor.reshape(-1)


def write_json(path: Path, value: Json) -> None:
    with replacing(path) as partial:
        partial.write_text(dumps(value, indent=2) + "\n", encoding="ascii")


def config_json(checkpoint: Checkpoint) -> Json:
    model = checkpoint.config.model
    if not is_gpt2(model):
        return {**auto_config(model), DESCRIPTION_KEY: describe_run(checkpoint)}
    return {
        "architectures": ["GPT2LMHeadModel"],
        **REQUIRED,
        "n_positions": model.ctx,
        "n_embd": model.d_model,
        "n_layer": model.layers,
        "n_head": model.heads,
        "n_inner": model.d_mlp,
        "resid_pdrop": 0.0,
        "embd_pdrop": 0.0,
        "attn_pdrop": 0.0,
        "bos_token_id": None,
        "eos_token_id": None,
        "dtype": "float32",
        DESCRIPTION_KEY: describe_run(checkpoint),
    }


def generation_json(model: ModelConfig) -> Json:
    """Sample as TinyGPT does. GPT-2 has no positions beyond its context, so half of it is left for the prompt."""
    sample = SampleConfig()
    return {
        "do_sample": True,
        "temperature": sample.temperature,
        "top_k": sample.top_k,
        "top_p": sample.top_p,
        **(
            {"max_new_tokens": model.ctx // 2}
            if is_gpt2(model)
            else {"max_new_tokens": sample.tokens, "use_cache": False}
        ),
    }


def load_huggingface(folder: str | os.PathLike[str]) -> Checkpoint:
    config_path, weights_path = Path(folder, CONFIG_FILE), Path(folder, WEIGHTS_FILE)
    with faults_of(config_path, "read"):
        config = parse_object(decoded(read_regular(config_path, LONGEST_TEXT), "it"), "it")
        ours = config.get("model_type") == MODEL_TYPE
        run, step = decode_own_config(config) if ours else decode_gpt2_config(config)
    with faults_of(weights_path, "read"), open_tensors(weights_path) as tensors:
        if ours:
            return with_state(run, read_state(tensors, run.config.model, step, PREFIX_OF_OURS))
        return with_state(run, State(step, read_weights(tensors, run.config.model)))


def decode_own_config(config: Json) -> tuple[Run, int]:
    if config.get(DESCRIPTION_KEY) is None:
        raise TinyGPTError(f"it has no '{DESCRIPTION_KEY}', which says how the model was made; export it again")
    description = json_object(config[DESCRIPTION_KEY], DESCRIPTION_KEY)
    step = described_step(description)
    return decode_run(description, step), step


def decode_gpt2_config(config: Json) -> tuple[Run, int]:
    for key, required in REQUIRED.items():
        # Where GPT-2's own default is what we require, the key may be absent.
        stated = config.get(key, required if isinstance(required, (bool, float)) else None)
        if stated != required:
            raise TinyGPTError(f"{key} must be {required!r} for TinyGPT's model, not {stated!r}")
    names = {"n_layer": "layers", "n_embd": "d_model", "n_head": "heads", "n_positions": "ctx"}
    for key in names:
        if config.get(key) is None:
            raise TinyGPTError(f"it has no '{key}'")
    model = ModelConfig(**{name: config[key] for key, name in names.items()})
    if config.get("n_inner") not in (None, model.d_mlp):
        raise TinyGPTError(f"n_inner must be 4 * n_embd = {model.d_mlp}, not {config['n_inner']!r}")
    if config.get(DESCRIPTION_KEY) is None:
        return Run(RunConfig(model, TrainConfig()), Progress(), "", {}, "", None, None, (), ""), 0
    description = json_object(config[DESCRIPTION_KEY], DESCRIPTION_KEY)
    step = described_step(description)
    run = decode_run(description, step)
    if run.config.model != model:
        raise TinyGPTError(f"'{DESCRIPTION_KEY}' describes another model ({run.config.model}) than the rest ({model})")
    return run, step


def read_weights(tensors: TensorFile, model: ModelConfig) -> FloatArray:
    rows = joined_tensors(model)
    head = "lm_head.weight"  # some writers keep the tied head
    tensors.require_names([row.name for row in rows] + ([head] if head in tensors.names else []))
    for row in rows:
        tensors.require_shape(row.name, row.shape)
    w = np.empty(parameter_count(model), dtype=np.float32)
    for row in rows:
        split(tensors.read(row.name), row, w)
    if head in tensors.names:
        tensors.require_shape(head, rows[0].shape)
        if not np.array_equal(tensors.read(head), tensors.read(rows[0].name)):
            raise TinyGPTError(f"{head} differs from the token embedding, but TinyGPT's model shares the two")
    return w
