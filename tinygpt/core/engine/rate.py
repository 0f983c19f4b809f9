"""How long things take, and how many of them to ask for at once."""

READINGS = 20  # over which a rate is averaged
HEARD = 0.05  # seconds that a part of a validation or of a text should take: between two parts a stop is heard


class Rate:
    """Seconds per one of a kind (a step, a batch, a byte), over the last readings."""

    def __init__(self) -> None:
        self.readings: list[tuple[int, float]] = []  # (how many, seconds)

    def add(self, count: int, seconds: float) -> None:
        if count:
            self.readings = self.readings[-(READINGS - 1) :] + [(count, seconds)]

    def each(self) -> float:
        """0 while nothing is known."""
        count = sum([reading[0] for reading in self.readings])
        return sum([reading[1] for reading in self.readings]) / count if count else 0.0

    def fitting(self, seconds: float, most: int) -> int:
        """How many take about so long, at least one and at most `most`; one while nothing is known."""
        if not self.readings or most < 1:
            return 1
        each = self.each()
        return most if seconds >= most * each else max(1, int(seconds / each))
