"""A page of one file: the model that goes in comes out, and nothing that a name or a text holds breaks out of it."""

import gzip
import re
from dataclasses import replace

import numpy as np
import pytest
from format_samples import sample_checkpoint
from test_tables import with_tables

from tinygpt.core.errors import TinyGPTError
from tinygpt.site.single import inline, template_of
from tinygpt.store.formats import load_file, save_model, web_page
from tinygpt.store.formats.tinygpt_file import load_tinygpt, save_tinygpt

OUTLINE = (
    "<!doctype html><title>@@TITLE@@</title>@@HASH@@<style>@@STYLE@@</style>"
    '<script type="text/plain" id="plan">@@PLAN@@</script><script type="text/plain" id="model">@@MODEL@@</script>'
    "@@KERNELS@@<script>@@SCRIPT@@</script>"
)
HOSTILE = "</title></script><script>alert(1)</script><!-- @@MODEL@@ \"' \u2028"


@pytest.fixture(autouse=True)
def built(tmp_path, monkeypatch):
    """A template, as the site's build makes one."""
    (tmp_path / "single.js").write_text("let a;")
    (tmp_path / "single.css").write_text("p {}")
    (tmp_path / "simd.wasm").write_bytes(b"\0asm")
    (tmp_path / "template.txt").write_text(template_of(OUTLINE, tmp_path, tmp_path))
    monkeypatch.setattr(web_page, "TEMPLATE", tmp_path / "template.txt")


@pytest.mark.parametrize("dtype", ["int8", "float16", "float32"])
@pytest.mark.parametrize("checkpoint", [sample_checkpoint(), with_tables(True)])
def test_the_model_comes_out_as_a_file_of_its_dtype_has_it(tmp_path, checkpoint, dtype):
    assert save_model(tmp_path / "a.html", checkpoint, dtype=dtype) == "html"
    save_tinygpt(tmp_path / "a.tinygpt", checkpoint, include_optimizer=False, dtype=dtype)
    got, expected = load_file(tmp_path / "a.html"), load_tinygpt(tmp_path / "a.tinygpt")
    assert got.config == expected.config and got.progress.as_dict() == expected.progress.as_dict()
    np.testing.assert_array_equal(got.state.w, expected.state.w)
    if expected.state.tables is not None:
        np.testing.assert_array_equal(got.state.tables.rows, expected.state.tables.rows)


def test_unless_it_is_said_otherwise_it_is_int8(tmp_path):
    save_model(tmp_path / "a.html", sample_checkpoint())
    save_model(tmp_path / "b.html", sample_checkpoint(), dtype="int8", title="a")
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


def test_hostile_names_and_texts_stay_inside(tmp_path):
    progress = sample_checkpoint().progress
    progress.sample = HOSTILE
    checkpoint = replace(sample_checkpoint(), progress=progress, data={"name": HOSTILE, "sha256": "ab" * 32})
    save_model(tmp_path / "a.html", checkpoint, title=HOSTILE, prompt=HOSTILE)
    save_model(tmp_path / "b.html", sample_checkpoint(), title="b")
    hostile, harmless = ((tmp_path / name).read_text(encoding="utf-8") for name in ("a.html", "b.html"))
    assert re.findall(r"<[^>]*>", hostile) == re.findall(r"<[^>]*>", harmless)
    assert load_file(tmp_path / "a.html").progress.sample == HOSTILE


def test_a_script_holds_nothing_that_html_takes_for_its_end():
    assert inline('a = "</script>"; b = `<!-- c`') == 'a = "<\\/script>"; b = `<\\!-- c`'


def test_without_a_built_page_it_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(web_page, "TEMPLATE", tmp_path / "none.txt")
    with pytest.raises(TinyGPTError, match="not built here: run `make site` first"):
        save_model(tmp_path / "a.html", sample_checkpoint())
    assert not (tmp_path / "a.html").exists()


@pytest.mark.parametrize(
    ("found", "put", "fault"),
    [
        (r'id="model"', 'id="other"', "this page holds no model"),
        (r'(id="model">.{300}).{9}', r"\1AAAAAAAAA", "damaged"),
        (r'(id="model">.{400})[^<]*', r"\1", "cut off or far too large"),
    ],
)
def test_a_damaged_page_is_refused(tmp_path, found, put, fault):
    save_model(tmp_path / "a.html", sample_checkpoint())
    page = (tmp_path / "a.html").read_text()
    (tmp_path / "b.html").write_text(re.sub(found, put, page))
    with pytest.raises(TinyGPTError, match=fault):
        load_file(tmp_path / "b.html")


def test_what_unpacks_to_far_more_than_a_model_would_is_refused():
    with pytest.raises(TinyGPTError, match="far too large"):
        web_page.unpacked(gzip.compress(bytes(10**7)))
