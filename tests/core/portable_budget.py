"""Prints what a budget comes to on made-up machines. Run by CPython and by MicroPython; see test_micropython.py."""

from bits import bits
from clocked import Clock, ClockedEngine, ClockedHost

from tinygpt.core import presets
from tinygpt.core.advice import band, hardness, law, pace
from tinygpt.core.advice.choose import Asked, Survey, sizes
from tinygpt.core.advice.law_numbers import LAWS
from tinygpt.core.engine import contract
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.train import trainer

TRAIN = b"".join([b"%d bottles of beer on the wall, %d bottles.\n" % (n * n % 89, n) for n in range(900)])
facts = law.TextFacts(len(TRAIN), hardness.hardness(TRAIN, TRAIN[:5000]))
print("hardness", round(1e9 * facts.hardness))

for name in sizes():
    for tokens, batch_tokens, dropout in ((10**5, 256, 0.0), (10**6, 2048, 0.15), (10**8, 8192, 0.3)):
        print(name, round(1e9 * law.end_loss(LAWS.plain, name, tokens, batch_tokens, dropout, facts)))

for recipe in presets.recipe_names():
    for name in presets.preset_names():
        known = band.band_of(presets.preset(name, recipe), len(TRAIN))
        found = [known(tokens) for tokens in (10**4, 10**5, 10**6, 10**8)] if known is not None else []
        print(recipe, name, [bounds and [round(1e9 * bound) for bound in bounds] for bounds in found])

for flops, seconds in ((1e6, 10), (2e9, 20), (1e11, 20)):
    clock = Clock()

    async def opened(run, clock=clock, flops=flops):
        return ClockedEngine(run, clock, flops)

    asked = Asked(facts, 5000, sizes(), {}, 320, 4, 0.05)
    survey = Survey(asked, opened, clock.now, clock.now() + seconds)
    try:
        option = contract.run_now(survey.choose())
    except TinyGPTError as error:
        print("refused:", error)
        continue
    print(option.preset, bits(option.run.as_dict()), round(1e9 * option.prediction.loss))
    engine = ClockedEngine(option.run, clock, 0.7 * flops)
    host = ClockedHost(clock)
    kept = pace.Pace(clock.now(), survey.deadline, option)
    print(contract.run_now(trainer.Trainer(option.run, engine, host, len(TRAIN), 5000, pace=kept).run()))
    print([bits(event) for event in host.of("retime")], engine.step, survey.deadline >= clock.now())
