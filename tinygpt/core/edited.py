"""Whether these sources were edited: the copy of the package that an edit makes (tinygpt/edits) says here which one."""

EDIT = ""  # its name and the digest of its patch, as "no-residual 3f2a9c01d4e5"


def version_with(version: str) -> str:
    """The version, which is another one where sources are edited: nothing that names it proves the edit's runs."""
    return version + "+edit." + EDIT.split(" ")[-1] if EDIT else version


def other_edit(its: str, ours: str) -> str:
    """What to tell of a model that other sources trained than those that run it."""
    if its and ours:
        return f"it was trained with the edit {its}, and this is the edit {ours}: it computes something else here"
    if its:
        return f"it was trained with the edit {its} of TinyGPT's sources, and computes something else without it"
    return f"it was trained without an edit, and computes something else with {ours}"
