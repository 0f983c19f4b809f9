from pathlib import Path

import pytest

from tinygpt.core.config import LoraConfig, ModelConfig, RunConfig, TrainConfig, validates
from tinygpt.core.corpus import check_corpus, corpus_advice
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.models.parameters import parameter_count, parameters
from tinygpt.core.names import is_linear_weight
from tinygpt.core.presets import (
    DEFAULT_PRESET,
    DEFAULT_RECIPE,
    PRESETS,
    RECIPES,
    adapting,
    cut_short,
    preset,
    recipe_names,
)

ROOT = Path(__file__).parents[2]
# The table of the design: layers, d_model, heads, ctx, batch, steps, millions of parameters.
DESIGN = {
    "tiny": (2, 48, 3, 32, 16, 2000, 0.07),
    "small": (3, 96, 3, 64, 16, 1500, 0.37),
    "medium": (4, 128, 4, 96, 16, 1000, 0.84),
    "large": (6, 192, 6, 128, 12, 600, 2.74),
    "xl": (8, 256, 8, 128, 8, 400, 6.42),
    "huge": (12, 256, 8, 256, 8, 5000, 9.61),
    "massive": (14, 384, 12, 256, 4, 1000, 25),
    "mega": (14, 384, 12, 512, 8, 800, 25),
    "behemoth": (24, 1280, 20, 512, 1, 50, 473),
}


@pytest.mark.parametrize("name", DESIGN)
def test_presets_are_the_designs(name):
    layers, d_model, heads, ctx, batch, steps, millions = DESIGN[name]
    run = preset(name)
    assert run.model == ModelConfig(layers=layers, d_model=d_model, heads=heads, ctx=ctx)
    assert (run.train.batch, run.train.steps) == (batch, steps)
    assert abs(parameter_count(run.model) / 1e6 / millions - 1) < 0.01


def test_there_are_no_other_presets_and_every_recipe_has_them_all():
    assert [row.name for row in PRESETS] == list(DESIGN)
    assert DEFAULT_PRESET in DESIGN and DEFAULT_RECIPE in recipe_names()
    for recipe in RECIPES:
        assert list(recipe.presets) == list(DESIGN)


@pytest.mark.parametrize("name", DESIGN)
def test_modern_is_the_same_model_with_other_positions_tables_and_an_optimizer_worth_its_time(name):
    run, classic = preset(name, "modern"), preset(name)
    small_enough = list(DESIGN).index(name) < list(DESIGN).index("huge")
    assert bool(run.model.ngrams) == small_enough and run.train.windows == "shuffled"
    assert run.model == classic.model.replace(positions="rotary", qk_norm="on", ngrams=run.model.ngrams)
    assert run.train.optimizer == "muon" and run.train.schedule == "cosine"
    assert run.train.warmup <= run.train.steps / 10 and run.train.min_lr == pytest.approx(run.train.lr / 10)


@pytest.mark.parametrize("name", DESIGN)
def test_a_short_text_is_not_learned_by_heart(name):
    """It has no tables; where there are none anyway, it has dropout. `classic` is the same on every text."""
    usual, short = preset(name, "modern"), preset(name, "modern", 300_000)
    assert preset(name, "modern", 4_800_000) == usual and preset(name, "classic", 300_000) == preset(name)
    if usual.model.ngrams:
        assert short == usual.replace(ngrams="") and preset(name, "modern", 1_000_000) == usual
    else:
        assert short == usual.replace(dropout=short.train.dropout) and usual.train.dropout == 0 < short.train.dropout


def test_the_documents_show_the_table_of_the_default_recipe():
    lines = (ROOT / "docs" / "quality.md").read_text().splitlines()
    start = lines.index("| preset | batch | steps | lr | matrix_lr | n-grams | ngram_lr |") + 2
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[start : start + len(DESIGN)]]
    for name, row in zip(DESIGN, rows, strict=True):
        run = preset(name, DEFAULT_RECIPE)
        train, ngrams = run.train, run.model.ngrams
        tables = [ngrams, f"{train.ngram_lr:g}"] if ngrams else ["–", "–"]
        rates = [f"{value:g}" for value in (train.lr, train.matrix_lr)] + tables
        batch = str(train.batch) if train.grad_accum == 1 else f"{train.batch} × {train.grad_accum}"
        assert row == [name, batch, f"{train.steps:,}", *rates]


def test_a_run_that_is_cut_short_warms_up_for_less():
    run = preset("small", "modern")
    assert cut_short(run, {"steps": 300}) == run.replace(steps=300, warmup=30)
    assert cut_short(run, {"steps": 300, "warmup": 70}) == run.replace(steps=300, warmup=70)
    assert cut_short(run, {"steps": 3000}) == run.replace(steps=3000)


def test_training_defaults_are_the_designs():
    train = TrainConfig()
    assert (train.lr, train.beta1, train.beta2, train.eps) == (3e-4, 0.9, 0.95, 1e-8)
    assert (train.weight_decay, train.grad_clip, train.val_fraction) == (0.1, 1.0, 0.1)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: ModelConfig(d_model=100, heads=3), "d_model 100 is not divisible by 3 heads"),
        (lambda: ModelConfig(ctx=0), "model.ctx must be from 1 to"),
        (lambda: ModelConfig(ctx=1.5), "whole number"),
        (lambda: ModelConfig(layers=True), "must be a number"),
        (lambda: ModelConfig(layers="3"), "must be a number"),
        (lambda: ModelConfig(layers=float("inf")), "whole number"),
        (lambda: TrainConfig(lr=float("nan")), "train.lr must be from"),
        (lambda: TrainConfig(batch=0), "train.batch must be from 1"),
        (lambda: TrainConfig(seed=2**32), "train.seed"),
        (lambda: TrainConfig(schedule="linear"), "one of constant, cosine"),
        (lambda: TrainConfig(learning=1), "there is no train setting 'learning'; there are batch, steps, lr,"),
        (lambda: TrainConfig(lr=0), "train.lr must be from 1e-12 to 10.0, not 0.0"),
        (lambda: LoraConfig(targets="q_pro"), "did you mean 'q_proj'"),
        (lambda: LoraConfig(targets=" , "), "lora.targets is empty"),
        (lambda: preset("hugs"), "did you mean 'huge'"),
        (lambda: preset("small").replace(layer=3), "did you mean 'layers'"),
        (lambda: check_corpus(preset("small"), 64), "64 bytes, but one window takes ctx + 1 = 65"),
        (
            lambda: check_corpus(preset("tiny").replace(batch=65536, grad_accum=65536), 999),
            "a step would read batch x grad_accum x ctx = 137,438,953,472 bytes, and 2,147,483,647 is the most; lower",
        ),
        (
            lambda: check_corpus(preset("tiny").replace(batch=65536, eval_batches=65536), 999),
            "a validation would read batch x eval_batches x ctx = 137,438,953,472 bytes",
        ),
    ],
)
def test_wrong_settings_get_one_sentence(make, says):
    with pytest.raises(TinyGPTError, match=r".") as caught:
        make()
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_corpus_of_exactly_one_window_is_accepted():
    check_corpus(preset("small"), 65)


def test_replace_changes_only_what_it_names():
    run = preset("small")
    changed = run.replace(ctx=128, lr=1e-3)
    assert (changed.model.ctx, changed.train.lr) == (128, 1e-3)
    assert changed.replace(ctx=64, lr=3e-4) == run
    assert changed != run
    assert RunConfig(ModelConfig(**run.model.as_dict()), TrainConfig(**run.train.as_dict())) == run


def test_advice_is_given_where_corpus_and_model_do_not_fit():
    assert corpus_advice(preset("small"), 1_000_000, 100_000, 366432) == []
    memorised, epochs, validation = corpus_advice(preset("huge"), 777, 86, 9608704)
    assert "far too small" in memorised
    assert "times over" in epochs
    assert "no validation loss" in validation
    assert not validates(preset("huge"), 86)
    assert validates(preset("huge"), 257)


def test_adapters_read_a_short_text_a_few_dozen_times_and_say_so():
    base = preset("small", "modern")  # 1,024 bytes per step
    for train_bytes, steps in ((600, 100), (10_240, 400), (10**6, TrainConfig().steps)):
        run = adapting(base, LoraConfig(), train_bytes)
        assert run.train.steps == steps
        said = [line for line in corpus_advice(run, train_bytes, 1000, 4000) if "only learn it by heart" in line]
        assert len(said) == (steps < TrainConfig().steps)
    assert adapting(base, LoraConfig()).train.steps == TrainConfig().steps
    longer = adapting(base, LoraConfig(), 600).replace(steps=1000)
    assert "times over" in corpus_advice(longer, 600, 1000, 4000)[-1]


def test_parameters_tile_the_flat_vector():
    model = preset("tiny").model
    end = 0
    for parameter in parameters(model):
        assert parameter.offset == end
        end += parameter.size
        assert parameter.decay == (len(parameter.shape) == 2)
    assert end == parameter_count(model)
    names = [parameter.name for parameter in parameters(model)]
    assert len(set(names)) == len(names)
    assert sum(is_linear_weight(name) for name in names) == 6 * model.layers


def test_advice_does_not_contradict_itself():
    """Of 50 bytes nothing can be held out that is long enough to validate."""
    sentences = corpus_advice(preset("tiny"), 45, 5, 70464)
    assert [sentence for sentence in sentences if "no validation loss" in sentence]
    assert not [sentence for sentence in sentences if "Watch the validation" in sentence or "patience" in sentence]
    assert not [sentence for sentence in sentences if "smaller preset" in sentence]  # there is none


def test_what_a_model_has_for_life_does_not_change_when_training_goes_on():
    run = preset("tiny")
    assert run.going_on(lr=1e-3, batch=3, seed=run.train.seed).train == run.train.replace(lr=1e-3, batch=3)
    for name, value in (("layers", 3), ("d_model", 96), ("heads", 1), ("ctx", 9), ("seed", 1), ("val_fraction", 0.5)):
        with pytest.raises(TinyGPTError, match=f"a run that goes on keeps its {name}: .* cannot become"):
            run.going_on(**{name: value})
