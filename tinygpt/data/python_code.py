"""Python code out of the `networkx` package: its modules without their tests."""

import io
import tarfile


def assemble(archive: bytes) -> str:
    """The modules in the order of their paths, two blank lines between them."""
    modules = []
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as files:
        for member in sorted(files.getmembers(), key=lambda member: member.name):
            folders = member.name.split("/")
            if member.name.endswith(".py") and folders[1] == "networkx" and "tests" not in folders:
                source = files.extractfile(member)
                assert source is not None, member.name
                lines = source.read().decode("utf-8").splitlines()
                modules.append("\n".join(line.rstrip() for line in lines).strip("\n"))
    return "\n\n\n".join(module for module in modules if module) + "\n"
