"""What tasks make up: answers that are right by another calculation, and questions that are on one side for good."""

import re
from collections import Counter
from itertools import pairwise

import pytest

from tinygpt.core.errors import TinyGPTError
from tinygpt.core.tasks import TASKS, exercises

NAMES = [task.name for task in TASKS]


def closes_all(signs):
    """Whether brackets are balanced, by taking away pairs that touch."""
    left = None
    while left != signs:
        left, signs = signs, re.sub(r"\(\)|\[\]|\{\}", "", signs)
    return signs == ""


def two_of(digits, goal, answer):
    """The answer is a pair in the order of the digits, and the only one of that sum."""
    places = [(i, j) for j in range(len(digits)) for i in range(j) if int(digits[i]) + int(digits[j]) == int(goal)]
    return [digits[i] + digits[j] for i, j in places] == [answer]


def is_sum(question, answer, digits):
    a, b = question[:-1].split("+")
    return len(a) == len(b) == digits and int(a) + int(b) == int(answer)


def is_sum_of_any(question, answer, digits):
    a, b = question[:-1].split("+")
    return max(len(a), len(b)) <= digits and int(a) + int(b) == int(answer)


CHECKS = {
    "addition": is_sum,
    "sums": is_sum_of_any,
    "modular-addition": lambda q, a, n: eval(f"({q[:-1]}) % {n} == {a}"),
    "sorting": lambda q, a, n: len(a) == n and Counter(q[:-1]) == Counter(a) and all(x < y for x, y in pairwise(a)),
    "reversing": lambda q, a, n: len(a) == n and q == a[::-1] + "=",
    "copying": lambda q, a, n: q == a + "." * n + "=" and len(a) == 4,
    "repeating": lambda q, a, n: len(q) == n + 1 and a == 2 * q[:-1],
    "parity": lambda q, a, n: (
        len(q) == n + 1 and all(int(q[:i], 2).bit_count() % 2 == int(a[i - 1]) for i in range(1, n + 1))
    ),
    "brackets": lambda q, a, n: len(q) == n + 1 and a != "" and closes_all(q[:-1] + a) and not re.search(r"[(\[{]", a),
    "two-sum": lambda q, a, n: len(q.split(":")[0]) == n and two_of(*q[:-1].split(":"), a),
    "temporal-order": lambda q, a, n: re.sub("[a-z=]", "", q) == a and len(a) == n and len(q) == n + 9,
}


def pairs_of(text):
    """Questions and answers by reading the lines."""
    lines = text.decode().split("\n")
    assert lines.pop() == ""
    return [(line[: line.index("=") + 1], line[line.index("=") + 1 :]) for line in lines]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("hardness", ["low", "default", "high"])
def test_answers_are_right_and_no_question_is_on_both_sides(name, hardness):
    task = TASKS[NAMES.index(name)]
    difficulty = getattr(task, hardness)
    made = exercises(f"task:{name}:{difficulty}")
    trained, held_out = made.text(False, 8000), made.text(True, 3000)
    exam = made.exam(50)
    for question, answer in pairs_of(trained) + pairs_of(held_out) + exam:
        assert CHECKS[name](question, answer, difficulty), (question, answer)
    questions = {question for question, _ in pairs_of(trained)}
    assert len(questions) > 20
    assert questions.isdisjoint(question for question, _ in pairs_of(held_out) + exam)
    assert len({question for question, _ in exam}) == len(exam) >= 5
    assert all(made.is_held_out(question) for question, _ in exam)


def test_a_text_follows_from_its_name_and_goes_on_with_its_length():
    text = exercises("task:sorting,seed=7").text(False, 5000)
    assert 5000 <= len(text) < 5020
    assert exercises("task:sorting:6,seed=7").text(False, 9000).startswith(text)
    for other in ("task:sorting", "task:sorting,seed=8", "task:sorting:5,seed=7"):
        assert not exercises(other).text(False, 500).startswith(text[:100])


@pytest.mark.parametrize("share", [pytest.param(20, marks=pytest.mark.slow), 50, 90])
def test_the_share_of_questions_to_train_on(share):
    made = exercises(f"task:modular-addition:97,train={share}")
    space = [f"{a}+{b}=" for a in range(97) for b in range(97)]
    held_out = {question for question in space if made.is_held_out(question)}
    deviation = (
        97 * 98 / 2 * share * (100 - share)
    ) ** 0.5 / 100  # of the pairs; all but 44 of 9,409 are in two orders
    assert abs(len(held_out) - len(space) * (100 - share) / 100) < 2 * 4 * deviation
    trained = {question for question, _ in pairs_of(made.text(False, 500_000 if share == 20 else 50_000))}
    assert trained.isdisjoint(held_out)
    assert share != 20 or len(trained) == len(space) - len(held_out)  # a long text has them all


def test_whatever_the_seed_the_same_questions_are_held_out():
    asked = {question for seed in range(3) for question, _ in exercises(f"task:addition,seed={seed}").exam()}
    assert len(asked) > 300 and all(exercises("task:addition").is_held_out(question) for question in asked)
    fewer = exercises("task:addition,train=50")
    assert all(fewer.is_held_out(question) for question in asked)  # and more with them


def test_a_sum_and_its_twin_are_on_one_side():
    made = exercises("task:addition")
    for a in range(10, 99):
        assert made.is_held_out(f"{a}+{a + 1}=") == made.is_held_out(f"{a + 1}+{a}=")


@pytest.mark.parametrize(
    "name", ["task:addition", "task:addition:3", "task:modular-addition:59,train=40,seed=7", "task:parity,seed=1"]
)
def test_names_are_read_and_written(name):
    assert exercises(name).name == name
    assert exercises("task:addition:2,seed=0,train=90").name == "task:addition"


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("task:", "there is no task ''; there are addition, "),
        ("task:additon", "did you mean 'addition'"),
        ("task:parity:99", "task:parity takes bits from 6 to 24, not 99"),
        ("task:addition:0", "task:addition takes digits from 1 to 8, not 0"),
        ("task:addition:two", "'two' where a whole number belongs: write task:NAME"),
        ("task:addition:2:3", "'2:3' where a whole number belongs"),
        ("task:addition,train=100", "takes train from 1 to 99, not 100"),
        ("task:addition,seed=-1", "'-1' where a whole number belongs"),
        ("task:addition,seed=4294967296", "takes seed from 0 to 4294967295"),
        ("task:addition,sed=1", "the option 'sed', but a task has train and seed"),
    ],
)
def test_a_name_that_is_wrong_is_one_sentence(name, sentence):
    with pytest.raises(TinyGPTError, match=re.escape(sentence)):
        exercises(name)


def test_a_side_without_questions_is_one_sentence():
    made = exercises("task:addition:1,train=99")
    with pytest.raises(TinyGPTError, match="has no question to hold out; choose another train=, or more digits"):
        made.exam()
