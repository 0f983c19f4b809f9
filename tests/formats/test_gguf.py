"""A GGUF file as llama.cpp's own Python package reads it, held against what transformers opens."""

import gguf
import numpy as np
import pytest
from format_samples import sample_checkpoint
from safetensors.numpy import load_file as load_tensors

from tinygpt.core.config import ModelConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.store.formats import load_file, save_model
from tinygpt.store.formats.byte_tokenizer import byte_letters

MODEL = ModelConfig(layers=2, d_model=32, heads=4, ctx=20)
SETTINGS = {"context_length": 20, "embedding_length": 32, "feed_forward_length": 128, "block_count": 2}
SETTINGS |= {"attention.head_count": 4, "attention.layer_norm_epsilon": np.float32(1e-5)}
# Of the largest number of a tensor: rounded to 11 bits, or to half of a 127th and a scale of 11 bits.
OFF = {"float32": ("F32", 0), "float16": ("F16", 2**-11), "int8": ("Q8_0", 0.5 / 127 + 2**-11)}


@pytest.mark.parametrize("dtype", OFF)
def test_the_gguf_package_reads_settings_bytes_and_every_number(dtype, tmp_path):
    checkpoint = sample_checkpoint(MODEL)
    assert save_model(tmp_path / "model.gguf", checkpoint, dtype=dtype) == "gguf"
    reader = gguf.GGUFReader(tmp_path / "model.gguf")
    told = {name: field.contents() for name, field in reader.fields.items()}
    assert told["general.architecture"] == "gpt2" and told["general.name"] == "model"
    assert {name: told[f"gpt2.{name}"] for name in SETTINGS} == SETTINGS
    assert told["tokenizer.ggml.tokens"] == byte_letters() and told["tokenizer.ggml.merges"] == []
    assert told["tokenizer.ggml.add_bos_token"] is False

    save_model(tmp_path / "folder", checkpoint, format="huggingface")
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.GPT2, MODEL.layers)
    found = {tensor.name: tensor for tensor in reader.tensors}
    kind, off = OFF[dtype]
    for theirs, values in load_tensors(tmp_path / "folder/model.safetensors").items():
        got = found.pop(names.get_name(theirs, (".weight", ".bias")))
        wanted = values.T if ".c_" in theirs else values  # GPT-2's Conv1D is [in, out]
        assert got.tensor_type.name == (kind if values.ndim == 2 else "F32") and got.data_offset % 32 == 0
        read = gguf.dequantize(got.data, got.tensor_type)
        assert read.shape == wanted.shape and np.abs(read - wanted).max() <= off * np.abs(wanted).max(), theirs
    assert not found


def test_what_has_no_counterpart_is_said(tmp_path):
    def fault(model, **more):
        with pytest.raises(TinyGPTError) as caught:
            save_model(tmp_path / "a.gguf", sample_checkpoint(model), **more)
        return str(caught.value)

    modern = MODEL.replace(positions="rotary", qk_norm="on")
    assert "has no counterpart of positions rotary, qk_norm on; train with --recipe classic for llama.cpp, or" in fault(
        modern
    )
    rows = MODEL.replace(d_model=24)
    assert "scales blocks of 32 numbers, and this model's rows have 24" in fault(rows, dtype="int8")
    assert list(tmp_path.iterdir()) == []
    save_model(tmp_path / "a.gguf", sample_checkpoint(MODEL))
    with pytest.raises(TinyGPTError, match="GGUF is written here, but not read"):
        load_file(tmp_path / "a.gguf")
