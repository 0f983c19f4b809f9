"""The table of finished runs: from the folders of sweeps to a module of core."""

import pytest

from lab.law import reference
from lab.law.reference import CURVE_POINTS, Split, rows_of, table, texts, thinned
from tinygpt.core.advice.hardness import hardness
from tinygpt.core.errors import TinyGPTError
from tinygpt.data.corpus import sha256
from tinygpt.sweeps import SweepFolder
from tinygpt.sweeps.results import DIVERGED, FINISHED, Result

SPLIT = Split(b"the cat sat on the mat. " * 90, b"the hen sat on the log. " * 20)
CURVE = [(512 * step, 0.1 * step, 5.5 - 0.01 * step) for step in range(1, 101)]


def result(outcome=FINISHED, loss=2.34567, **settings):
    config = {"model": {}, "train": {"batch": 16, "dropout": 0.0}}
    return Result(
        0, settings, config, 70_000, outcome, steps=100, tokens=51200, val_loss=loss + 0.5, best_val=loss, curve=CURVE
    )


def swept(path, split, *results):
    toml = f'preset = "tiny"\nrecipe = "modern"\n[data]\nsha256 = "{sha256(split.train)}"\n'
    with SweepFolder.create(path, toml + f'[validation]\nsha256 = "{sha256(split.val)}"\n') as folder:
        for each in results:
            folder.record(each)
    return path


def test_a_sweep_becomes_a_table_of_its_sound_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(reference, "texts", lambda: {"cats": SPLIT, "unused": Split(b"a", b"b")})
    runs = result(preset="small", steps=100), result(preset="tiny", steps=100), result(DIVERGED, 9.9, preset="huge")
    made = {}
    exec(table([swept(tmp_path / "sweep", SPLIT, *runs)]), made)
    assert [tuple(text) for text in made["TEXTS"]] == [("cats", 2160, 480, round(hardness(*SPLIT), 4))]
    assert [run.preset for run in made["RUNS"]] == ["tiny", "small"]
    first = made["RUNS"][0]
    assert first[:9] == ("modern", "tiny", "cats", False, 16, 100, 0.0, 51200, 2.3457)
    assert len(first.curve) <= CURVE_POINTS and first.curve[0] == (512, 5.49) and first.curve[-1] == (51200, 4.5)


def test_a_sweep_may_name_its_two_texts_or_one_that_it_splits(tmp_path):
    toml = f'preset = "tiny"\nrecipe = "modern"\n[data]\nsha256 = "{sha256(SPLIT.train + SPLIT.val)}"\n'
    with SweepFolder.create(tmp_path / "sweep", toml) as folder:
        folder.record(result())
    assert [row.text for row in rows_of(tmp_path / "sweep", {"cats": SPLIT})] == ["cats"]


def test_a_sweep_on_another_text_is_refused(tmp_path):
    folder = swept(tmp_path / "sweep", SPLIT, result())
    with pytest.raises(TinyGPTError, match="made on other texts"):
        list(rows_of(folder, {"dogs": Split(SPLIT.val, SPLIT.train)}))


def test_a_curve_keeps_its_ends_and_few_points_between():
    assert thinned(CURVE[:5]) == CURVE[:5]
    kept = thinned(CURVE)
    assert (kept[0], kept[-1]) == (CURVE[0], CURVE[-1]) and kept == sorted(set(kept)) and len(kept) <= CURVE_POINTS


def test_shakespeare_in_three_sizes_is_measured_on_one_play():
    known = texts()
    sizes = [known[name] for name in ("shakespeare-quarter", "shakespeare", "shakespeare-full")]
    assert len({split.val for split in sizes}) == 1
    assert all(split.val not in split.train for split in known.values())
    assert [round(len(split.train) / 1e6, 2) for split in sizes] == [0.26, 1.04, 4.81]
