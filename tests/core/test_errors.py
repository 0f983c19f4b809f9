import pytest

from tinygpt.core.errors import instead, nearest
from tinygpt.core.presets import preset_names


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("smal", "small"),
        ("TINY", "tiny"),
        ("masive", "massive"),
        ("behemot", "behemoth"),
        ("lagre", "large"),
        ("mas", "massive"),
        ("tiny-stories", "tiny"),
        ("lx", ""),
        ("nope", ""),
        ("foo", ""),
        ("", ""),
        ("x" * 10_000, ""),
    ],
)
def test_only_a_name_that_was_likely_meant_is_suggested(word, meant):
    assert nearest(word, preset_names()) == meant


def test_where_none_was_meant_all_are_named_unless_they_are_too_many():
    assert instead("smal", preset_names()) == "; did you mean 'small'?"
    assert instead("foo", ["tiny", "xl"]) == "; there are tiny, xl"
    assert instead("foo", [f"number {i}" for i in range(1000)]) == instead("foo", []) == ""
