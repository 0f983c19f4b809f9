"""TinyGPT's models for transformers: AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True).

`modules.py` beside this file is the model, as TinyGPT's own tests hold its engines against. Generation reads the whole
context again for every byte, instead of keeping keys and values: exact, and fast enough for models of this size.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from transformers import GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput

from .modules import Bigram, Transformer


class TinyGPTConfig(PretrainedConfig):
    """`model` has the model's settings by name, as TinyGPT's files state them, with those that follow from them."""

    model_type = "tinygpt"

    def __init__(self, model: dict[str, Any] | None = None, **others: Any) -> None:
        self.model = model or {}
        self.hidden_size = self.model.get("d_model", 0)
        self.num_hidden_layers = self.model.get("layers", 0)
        self.num_attention_heads = self.model.get("heads", 0)
        self.vocab_size = 256
        super().__init__(**{"use_cache": False, "tie_word_embeddings": False, **others})


class TinyGPTForCausalLM(PreTrainedModel, GenerationMixin):
    config_class = TinyGPTConfig
    base_model_prefix = "model"
    _supports_cache_class = False

    def __init__(self, config: TinyGPTConfig) -> None:
        super().__init__(config)
        settings: Any = SimpleNamespace(**config.model)
        self.model = Bigram(settings) if settings.kind == "bigram" else Transformer(settings)
        self.post_init()

    def _init_weights(self, module: torch.nn.Module) -> None:
        """A model is only made from the weights of a file."""

    def get_input_embeddings(self) -> torch.nn.Module:
        return self.model.token_embedding

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        **others: Any,
    ) -> CausalLMOutput:
        """Logits [B, T, 256]. Rows may be padded on either side: each is read without its padding."""
        if attention_mask is None or bool(attention_mask.all()):
            logits = self.model(input_ids)
        else:
            rows = []
            for tokens, real in zip(input_ids, attention_mask.bool(), strict=True):
                read = self.model(tokens[real][None])[0]
                rows.append(read.new_zeros(len(tokens), 256).masked_scatter(real[:, None], read))
            logits = torch.stack(rows)
        loss = None
        if labels is not None:
            loss = F.cross_entropy(logits[:, :-1].reshape(-1, 256), labels[:, 1:].reshape(-1))
        return CausalLMOutput(loss=loss, logits=logits)

    def prepare_inputs_for_generation(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, **others: Any
    ) -> dict[str, Any]:
        """The newest bytes, as many as the context has room for."""
        ctx = self.config.model["ctx"]
        newest = None if attention_mask is None else attention_mask[:, -ctx:]
        return {"input_ids": input_ids[:, -ctx:], "attention_mask": newest}
