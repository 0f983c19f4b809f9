"""Tasks about numbers."""

from tinygpt.core.tasks.task import Draw, Task, itself

TYPE_CHECKING = False
if TYPE_CHECKING:
    Pair = tuple[str, str]


def either_order(question: str) -> str:
    """Of a+b= and b+a= the same."""
    return "+".join(sorted(question[:-1].split("+")))


def addition(draw: Draw, digits: int) -> "Pair":
    least = 10 ** (digits - 1)
    a, b = least + draw.below(9 * least), least + draw.below(9 * least)
    return f"{a}+{b}=", str(a + b)


def sums(draw: Draw, digits: int) -> "Pair":
    """Of numbers of any width up to that one, each width as often as another."""
    a, b = draw.below(10 ** (1 + draw.below(digits))), draw.below(10 ** (1 + draw.below(digits)))
    return f"{a}+{b}=", str(a + b)


def modular_addition(draw: Draw, modulus: int) -> "Pair":
    a, b = draw.below(modulus), draw.below(modulus)
    return f"{a}+{b}=", str((a + b) % modulus)


def parity(draw: Draw, bits: int) -> "Pair":
    """Bit by bit whether the ones so far are odd in number; the last tells of all."""
    chosen = draw.letters(bits, "01")
    return chosen + "=", "".join([str(chosen[: i + 1].count("1") % 2) for i in range(bits)])


def two_sum(draw: Draw, numbers: int) -> "Pair":
    """Of digits that are all different, the only two that have that sum, in their order."""
    while True:
        digits = draw.some(numbers, range(1, 10))
        i = draw.below(numbers - 1)
        j = i + 1 + draw.below(numbers - 1 - i)
        goal = digits[i] + digits[j]
        if len([a for a in digits if goal - a in digits and 2 * a != goal]) == 2:
            question = "".join([str(digit) for digit in digits])
            return f"{question}:{goal}=", f"{digits[i]}{digits[j]}"


ADDITION = Task("addition", "two numbers and their sum", "digits", 1, 8, 2, 90, addition, either_order)
SUMS = Task("sums", "two numbers of any width up to a limit, and their sum", "digits", 1, 8, 3, 90, sums, either_order)
MODULAR_ADDITION = Task(
    "modular-addition",
    "two numbers and their sum, modulo",
    "modulus",
    11,
    997,
    97,
    50,
    modular_addition,
    either_order,
)
PARITY = Task("parity", "whether the ones so far are odd", "bits", 6, 24, 8, 80, parity, itself)
TWO_SUM = Task("two-sum", "the two digits that have a given sum", "numbers", 3, 7, 4, 90, two_sum, itself)
