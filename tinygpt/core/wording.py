"""Sentences as the page says them: by the labels that its settings have there, and sizes in one unit."""

from tinygpt.core.config import LoraConfig, ModelConfig, SampleConfig, TrainConfig


def labels() -> dict[str, str]:
    """Of settings by their names, with and without their section's."""
    found = {}
    for section in (SampleConfig, TrainConfig, LoraConfig, ModelConfig):
        for field in section.FIELDS:
            found[section.SECTION + "." + field.name] = field.label
            if field.name != "tokens":  # which sentences speak of, too
                found[field.name] = field.label
    return found


def in_labels(sentence: str) -> str:
    """The sentence with the label of each setting that it names."""
    known = labels()
    said, word = [], ""
    for letter in sentence + "\n":
        if letter.isalpha() or letter.isdigit() or letter in "_.":
            word += letter
            continue
        name = word.rstrip(".")
        said.append(known.get(name, name) + word[len(name) :] + letter)
        word = ""
    return "".join(said)[:-1]


def size_text(count: int) -> str:
    """1234567890 as 1.23 GB."""
    value, units = float(count), ["bytes", "KB", "MB", "GB"]
    while value >= 999.5 and len(units) > 1:
        value, units = value / 1000, units[1:]
    return f"{value:.3g} {units[0]}"
