"""An exam asks what the text never has, and is part of a validation."""

import pytest
from toy import ToyEngine, ToyHost

from tinygpt.core.engine.contract import run_now
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.presets import preset
from tinygpt.core.tasks import exercises
from tinygpt.core.tasks.task import EXAM_QUESTIONS
from tinygpt.core.train.exam import ON_THE_WAY, SHOWN, Exam
from tinygpt.core.train.progress import Progress
from tinygpt.core.train.trainer import Diverged, Trainer

CTX = 32
RUN = preset("tiny").replace(steps=60, eval_every=20, sample_every=0, checkpoint_every=0)


@pytest.fixture
def exam():
    return Exam(exercises("task:addition"), CTX)


def examined(exam, run=RUN, engine=None, host=None, progress=None):
    engine, host = engine or ToyEngine(), host or ToyHost()
    reason = run_now(Trainer(run, engine, host, 100_000, 10_000, progress, exam=exam).run())
    return reason, engine, host


@pytest.mark.parametrize("ctx", [10, 12, 32, 256])
def test_a_question_stands_behind_as_many_solved_ones_as_there_is_room_for(ctx):
    made, exam = exercises("task:addition"), Exam(exercises("task:addition"), ctx)
    for number, (question, answer) in enumerate(exam.questions):
        prompt = exam.prompt(number).decode()
        assert prompt.startswith("\n") and prompt.endswith("\n" + question)
        assert ctx - 11 < len(prompt + answer) <= ctx  # a line more would not fit
        for line in prompt[: -len(question)].split():
            solved, _, said = line.partition("=")
            assert eval(solved) == int(said) and not made.is_held_out(solved + "=")


def test_a_line_that_does_not_fit_is_refused():
    with pytest.raises(TinyGPTError, match="task:addition takes 10 bytes and does not fit into ctx 9: use a ctx of"):
        Exam(exercises("task:addition"), 9)


def test_what_is_right_and_what_is_shown(exam):
    engine = ToyEngine()
    engine.step = 50  # knows those whose answer ends in 0 to 4
    result = run_now(exam.take(engine, 40))
    assert result.hits == [int(answer) % 10 < 5 for _, answer in exam.questions[:40]]
    assert engine.asked == [16, 16, 8]  # batches
    right, wrong = result.answers[:SHOWN], result.answers[SHOWN:]
    assert all(answer == said and int(answer) % 10 < 5 for _, answer, said in right)
    assert len(wrong) == SHOWN and all(int(answer) % 10 >= 5 for _, answer, _ in wrong)
    assert [len(said) for _, _, said in wrong] == [len(answer) + 1 for _, answer, _ in wrong]  # the toy ends no line
    assert all(eval(question[:-1]) == int(answer) for question, answer, _ in result.answers)


def test_an_answer_that_goes_on_is_wrong(exam):
    engine = ToyEngine()

    async def never_ends(windows):
        return [window[1:] + b"0" for window in windows]

    engine.likeliest_bytes = never_ends
    assert True not in run_now(exam.take(engine, 20)).hits


def test_exams_come_with_validations_and_the_last_asks_all(exam):
    reason, _, host = examined(exam)
    assert reason == "finished"
    exams = host.of("exam")
    assert [(event["step"], event["asked"]) for event in exams] == [
        (20, ON_THE_WAY),
        (40, ON_THE_WAY),
        (60, EXAM_QUESTIONS),
    ]
    for event in exams:
        known = [int(answer) % 10 < event["step"] // 10 for _, answer in exam.questions[: event["asked"]]]
        assert (event["right"], event["accuracy"]) == (sum(known), sum(known) / len(known))
    assert host.saves[-1][2]["accuracy"] == exams[-1]["accuracy"]


def test_without_validations_there_is_one_exam_at_the_end(exam):
    _, _, host = examined(exam, RUN.replace(eval_every=0))
    assert [(event["step"], event["asked"]) for event in host.of("exam")] == [(60, EXAM_QUESTIONS)]
    assert host.of("eval") == []


def test_the_best_model_answers_most_and_of_equals_has_the_lowest_loss(exam):
    engine = ToyEngine(val_losses=[1.0, 2.0, 3.0, 2.5, 2.9, 2.9])

    async def answered(windows):
        """From step 40 on the same ones."""
        known = [window[-1] - ord("0") < min(engine.step // 10, 4) for window in windows]
        return [
            window[1:] + b"\n" if knows else bytes(len(window)) for window, knows in zip(windows, known, strict=True)
        ]

    engine.likeliest_bytes = answered
    _, _, host = examined(exam, RUN.replace(steps=120), engine)
    assert [event["best"] for event in host.of("eval")] == [True, True, False, False, False, False]
    last = host.saves[-1][2]
    assert (last["best_val"], last["best_step"], last["evals_since_best"]) == (2.0, 40, 4)


def test_a_stop_that_comes_into_an_exam_drops_it_and_who_goes_on_makes_up_for_it(exam):
    _, _, straight = examined(exam)
    engine, host = ToyEngine(), ToyHost()
    host.should_stop = lambda: engine.step == 40 and len(engine.asked) == 6  # in the second exam, after two batches
    reason, _, _ = examined(exam, engine=engine, host=host)
    assert (reason, engine.step) == ("stopped", 40)
    assert [event["step"] for event in host.of("exam") + host.of("eval")] == [20, 20]
    again, going_on = ToyHost(), ToyEngine()
    going_on.step, going_on.value = 40, host.saves[-1][1]
    assert examined(exam, engine=going_on, host=again, progress=Progress.from_dict(host.saves[-1][2]))[0] == "finished"
    assert host.of("exam") + again.of("exam") == straight.of("exam")
    assert host.of("eval") + again.of("eval") == straight.of("eval")
    assert again.saves[-1][2] == straight.saves[-1][2]


def test_logits_that_are_no_numbers_are_a_divergence(exam):
    from tinygpt.core.errors import NotFinite

    engine = ToyEngine()

    async def overflown(windows):
        raise NotFinite("they are not")

    engine.likeliest_bytes = overflown
    with pytest.raises(Diverged, match="step 20 because the model's logits are not finite"):
        examined(exam, engine=engine)
