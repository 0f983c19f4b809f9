"""A tokenizer for Hugging Face whose 256 tokens are the bytes: a token's id is the byte's value."""

from __future__ import annotations

from tinygpt.core.config import VOCAB
from tinygpt.store.formats.plain_json import Json


def byte_letters() -> list[str]:
    """The letter that stands for each byte in a byte-level vocabulary (GPT-2's table).

    Bytes that print as themselves keep their letter; the others get the letters from 256 on.
    """
    visible = {*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAC + 1), *range(0xAE, 0xFF + 1)}
    letters = []
    hidden = 0
    for byte in range(VOCAB):
        if byte in visible:
            letters.append(chr(byte))
        else:
            letters.append(chr(VOCAB + hidden))
            hidden += 1
    return letters


def tokenizer_json() -> Json:
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "vocab": {letter: byte for byte, letter in enumerate(byte_letters())},
            "merges": [],
        },
    }


def tokenizer_config_json(ctx: int) -> Json:
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": ctx,
        "clean_up_tokenization_spaces": False,
    }
