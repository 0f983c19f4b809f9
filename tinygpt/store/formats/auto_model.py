"""A folder that transformers opens for any model of ours, with code of ours beside the weights.

AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True)

`reference/modules.py` and `reference/modeling_tinygpt.py` go along as they are, but for three numbers that the first of
them imports: so the folder needs PyTorch and transformers, and no TinyGPT.
"""

from __future__ import annotations

from pathlib import Path

from tinygpt.core.config import LAYERNORM_EPS, ROTARY_BASE, VOCAB, ModelConfig
from tinygpt.disk.atomic import replacing
from tinygpt.store.formats.plain_json import Json

MODEL_TYPE = "tinygpt"
PREFIX = "model."  # of the tensors' names
REFERENCE = Path(__file__).parents[2] / "reference"
MODULES, MODELING = "modules.py", "modeling_tinygpt.py"
DERIVED = ("head_size", "kv_width", "d_mlp", "ngram_tables")  # what the modules read beside the settings themselves
NUMBERS = "from tinygpt.core.config import LAYERNORM_EPS, ROTARY_BASE, VOCAB\n"
TYPES = "if TYPE_CHECKING:\n    from tinygpt.core.config import ModelConfig\n"


def sources() -> dict[str, str]:
    """The two files of the folder, by name."""
    modules = (REFERENCE / MODULES).read_text(encoding="utf-8")
    stated = f"LAYERNORM_EPS, ROTARY_BASE, VOCAB = {LAYERNORM_EPS!r}, {ROTARY_BASE!r}, {VOCAB!r}\n"
    alone = modules.replace(NUMBERS, stated).replace(TYPES, "").replace("TYPE_CHECKING", "Any as ModelConfig")
    return {MODULES: alone, MODELING: (REFERENCE / MODELING).read_text(encoding="utf-8")}


def write_sources(folder: Path) -> None:
    for name, text in sources().items():
        with replacing(folder / name) as partial:
            partial.write_text(text, encoding="utf-8", newline="\n")


def auto_config(model: ModelConfig) -> Json:
    """What transformers asks of config.json."""
    code = MODELING.removesuffix(".py")
    return {
        "model_type": MODEL_TYPE,
        "architectures": ["TinyGPTForCausalLM"],
        "auto_map": {"AutoConfig": f"{code}.TinyGPTConfig", "AutoModelForCausalLM": f"{code}.TinyGPTForCausalLM"},
        "model": {**model.as_dict(), **{name: getattr(model, name) for name in DERIVED}},
        "use_cache": False,
        "dtype": "float32",
    }
