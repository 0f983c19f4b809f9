"""Measurements as data: what the docs show is made of the files beside them, and `bench --all` writes such files."""

import json
import struct

import pytest
from typer.testing import CliRunner

from lab import figures
from tinygpt.bench.record import SLOWEST, everything
from tinygpt.cli.app import app
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.presets import preset


def test_the_tables_are_what_the_command_makes_and_no_other_is_there():
    text = figures.TEXT.read_text(encoding="utf-8")
    assert figures.with_tables(text) == text, "run: python -m lab.figures"
    assert [place[2] for place in figures.PLACE.finditer(text)] == list(figures.TABLES)
    assert "\n|" not in figures.PLACE.sub("", text)


def test_a_table_follows_its_measurement(tmp_path, monkeypatch):
    rows = [
        {"preset": "tiny", "engine": name, "ms_per_step": ms, "gflops": 5} for name, ms in (("native", 2), ("torch", 3))
    ]
    rows.append({"preset": "mega", "engine": "native", "ms_per_step": 9000, "gflops": 5})
    rows.append({"preset": "mega", "engine": "torch", "error": "there is not enough memory"})
    (tmp_path / "cpu.json").write_text(json.dumps({"rows": rows}))
    monkeypatch.setattr(figures, "FIGURES", tmp_path)
    made = figures.with_tables("<!-- table: cpu -->\nold\n<!-- end -->\n")
    assert made.splitlines()[-2] == "| tiny | 2.00 | 3.00 | 5 | 5 | 1.50× |"
    with pytest.raises(TinyGPTError, match="no measurement"):
        figures.with_tables("<!-- table: gpu -->\n<!-- end -->\n")


def source_of(picture: bytes) -> str:
    """What a PNG's text says under Source."""
    at = 8
    while at < len(picture):
        (length,) = struct.unpack_from(">I", picture, at)
        if picture[at + 4 : at + 8] == b"tEXt" and picture[at + 8 :].startswith(b"Source\0"):
            return picture[at + 15 : at + 8 + length].decode()
        at += 12 + length
    return ""


@pytest.mark.parametrize("picture", figures.PICTURES)
def test_the_pictures_are_of_the_measurements(picture):
    drawn = (figures.DOCS / picture).read_bytes()
    assert source_of(drawn) == figures.digest(figures.PICTURES[picture]), "run: python -m lab.figures"


def test_all_writes_the_rows_with_machine_and_versions(tmp_path):
    out = tmp_path / "curve.json"
    arguments = ["bench", "--all", "--engines", "native", "--presets", "tiny", "--seconds", "0.05", "--out", str(out)]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    written = json.loads(out.read_text())
    (row,) = written["rows"]
    assert row["preset"] == "tiny" and row["engine"] == "native" and row["ms_per_step"] > 0
    assert {"date", "machine", "adapters", "versions", "command"} <= set(written)
    assert written["machine"]["cores"] >= 1 and written["versions"]["tinygpt"]


@pytest.mark.parametrize(
    "flags, why", [(["--all", "--profile"], "leave out --profile"), (["--out", "x.json"], "say --all")]
)
def test_what_goes_not_together_is_said(flags, why):
    done = CliRunner().invoke(app, ["bench", *flags])
    assert done.exit_code == 1 and why in " ".join(done.output.split())


def test_an_engine_that_cannot_or_is_too_slow_leaves_the_others_alone():
    asked = []

    def bench(name, config, engines, seconds):
        asked.append((name, [label for label, _ in engines]))
        if any(label == "broken" for label, _ in engines):
            raise TinyGPTError("there is not enough memory")
        for label, _ in engines:
            yield {"preset": name, "engine": label, "ms_per_step": 2000 * SLOWEST if label == "slow" else 1.0}

    configs = {name: preset(name) for name in ("tiny", "small")}
    engines = [(label, None) for label in ("native", "slow", "broken")]
    rows = list(everything(configs, lambda config: engines, 1.0, bench))
    by = {(row["preset"], row["engine"]): row for row in rows}
    assert len(rows) == len(by) == 6
    assert by["tiny", "broken"]["error"] == "there is not enough memory"
    assert by["tiny", "native"] == {"preset": "tiny", "engine": "native", "ms_per_step": 1.0, "alone": True}
    assert "60 seconds" in by["small", "slow"]["error"]
    assert ("small", ["native", "broken"]) in asked
