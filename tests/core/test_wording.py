import pytest

from tinygpt.core.config import ModelConfig, TrainConfig
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.tab.room import GIB, doubt
from tinygpt.core.wording import in_labels, size_text


def test_settings_are_called_what_the_page_calls_them():
    said = in_labels("train.lr must be from 0 to 10; one window takes ctx + 1 = 33. Use a smaller val_fraction.")
    assert said == (
        "learning rate must be from 0 to 10; one window takes context + 1 = 33. Use a smaller held-out share."
    )


def test_tokens_are_tokens():
    assert in_labels("4.3 tokens per parameter; sample.tokens is 0") == "4.3 tokens per parameter; length is 0"


def test_labels_are_words():
    odd = [field.label for field in ModelConfig.FIELDS + TrainConfig.FIELDS if "_" in field.label]
    assert odd == ["checkpoint_every", "keep_every"]  # the page keeps states by the clock


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 bytes"), (6_010_000, "6.01 MB"), (999_900, "1 MB"), (8.9e9, "8.9 GB")],
)
def test_sizes_have_one_unit(count, text):
    assert size_text(count) == text


def test_a_run_that_may_not_fit_is_doubted_and_one_that_cannot_is_refused():
    assert doubt(2 * GIB, 8 * GIB) == doubt(GIB, None) == ""
    assert "takes 9.66 GB of memory, and this browser says that there are 8.59 GB or more" in doubt(9 * GIB, 8 * GIB)
    assert "does not say how much there is" in doubt(3 * GIB, None)
    assert "there are 4.29 GB or more" in doubt(3 * GIB, 4 * GIB)
    with pytest.raises(TinyGPTError, match=r"takes 9\.66 GB of memory, but this machine has 4\.29 GB"):
        doubt(9 * GIB, 4 * GIB)
