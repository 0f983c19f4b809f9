"""Prints what core computes, in a form that does not depend on how floats or dicts are printed.

Run by CPython and by MicroPython; test_micropython.py compares the two outputs line by line.
"""

from bits import bits
from toy import ToyEngine, ToyHost

from tinygpt.core import config, corpus, presets, rng, tasks, text
from tinygpt.core.engine import contract
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.models import parameters
from tinygpt.core.models.programs import all_modes
from tinygpt.core.ops.op import Tensor
from tinygpt.core.optimizers import schedule
from tinygpt.core.optimizers.adamw import rates_of
from tinygpt.core.plan.cpu.lowering import Lowered
from tinygpt.core.train import exam, trainer
from tinygpt.core.write import sampler

for name in presets.preset_names():
    run = presets.preset(name)
    print(name, bits(run.as_dict()))
    for row in parameters.parameters(run.model):
        print(" ", row.name, bits(row.shape), row.offset, row.size, bits(row.std), bits(row.fill), row.decay)

for wrong in (
    lambda: presets.preset("smal"),
    lambda: config.ModelConfig(d_model=100, heads=3),
    lambda: config.ModelConfig(ctx=0),
    lambda: config.ModelConfig(layers=True),
    lambda: config.TrainConfig(lr=float("nan")),
    lambda: config.TrainConfig(batchh=3),
    lambda: config.TrainConfig(learning=3),
    lambda: config.LoraConfig(targets="q_pro"),
    lambda: corpus.check_corpus(presets.preset("small"), 64),
):
    try:
        wrong()
        print("accepted")
    except TinyGPTError as error:
        print("refused:", error)
print(corpus.corpus_advice(presets.preset("xl"), 863, 95, 6416896))

print([bits(list(rates_of(presets.preset("small").train, step))) for step in (1, 2, 1000, 100000)])
for step in (1, 2, 1000000):
    print(step, rng.batch_offsets(1337, step, 7, 1115394, 64))
print(rng.shuffled_offsets(4294967295, 30, 7, 1115394, 64), rng.shuffled_offsets(1, 4294967290, 9, 901, 9))
print(rng.eval_offsets(4294967295, 5, 3000000000, 128))
print([bits(rng.sample_uniform(7, position)) for position in (0, 1, 2**33)])

shaped = presets.preset("small").train.replace(schedule="cosine", warmup=10, steps=100)
print([bits(schedule.learning_rate(shaped, step)) for step in (1, 9, 10, 11, 50, 99, 100, 200)])

view = Tensor("qkv", (4, 300)).columns(201, 50).columns(7, 5)
print(view, view.start, view.pitch, view.span(), view.offset(), view.root())

logits = [((byte * 7919) % 997) / 128 for byte in range(256)]
for settings in (
    config.SampleConfig(),
    config.SampleConfig(temperature=0.0),
    config.SampleConfig(top_k=5, temperature=2.0),
    config.SampleConfig(top_p=0.3),
):
    print([sampler.choose(logits, settings, i / 64) for i in range(64)])

print(bits(text.decode(bytes(range(256)) + "é日本🎉".encode() + b"\xf0\x9f\x8e")))
for start in (b"text", b"\xff\xfet\0", b"\xff\xfe\0\0t\0\0\0", b"t\0e\0", b"%PDF-1.7", b"\xe9l\xe8ve " * 9):
    print(text.encoding_advice(start))

run = presets.preset("tiny").replace(steps=130, eval_every=20, sample_every=50, checkpoint_every=40, grad_accum=2)
for engine in (ToyEngine(), ToyEngine(block=7)):
    host = ToyHost()
    task = exam.Exam(tasks.exercises("task:addition"), 32) if engine.block else None
    print(contract.run_now(trainer.Trainer(run, engine, host, 100000, 10000, exam=task).run()))
    for event in host.events:
        print(bits(event))
    for save in host.saves:
        print(bits(save))

LAYERS = 2  # at most: a long proof plans all

for name in presets.preset_names():
    for changes in ({}, {"grad_accum": 3}, {"ctx": 17, "batch": 3})[: 3 if name in ("tiny", "small") else 1]:
        run = presets.preset(name).replace(**changes)
        run = run.replace(layers=min(LAYERS, run.model.layers))
        lowered = Lowered(run, all_modes(run) + ["train_fed", "init", "reset"], 100003, 9999)
        playbook = lowered.playbook()
        for mode in sorted(playbook["programs"]):
            print(name, mode, playbook["buffers"], bits(playbook["programs"][mode]))
