"""Prints what core asks of a player, and what it makes of the answers, as portable.py prints the rest of core."""

from bits import bits
from fake_player import fake_engine

from tinygpt.core import config, presets
from tinygpt.core.engine.contract import run_now
from tinygpt.core.errors import TinyGPTError
from tinygpt.core.look.watch import Watcher
from tinygpt.core.train.validation import validate
from tinygpt.core.write.desk import Desk

TEXT = bytes([byte % 251 for byte in range(1000)])
PROMPTS = [(b"", ()), (b"abcdefghi", (b"FG",)), (b"ab", (b"E", b"zz"))]

for changes in ({}, {"grad_accum": 3}):
    sizes = {"layers": 1, "d_model": 10, "heads": 2, "ctx": 9, "batch": 2}
    run = presets.preset("tiny").replace(schedule="cosine", warmup=5, steps=100, eval_batches=3)
    run = run.replace(grad_accum=3, **sizes) if changes else run.replace(**sizes)
    engine = fake_engine(run)
    run_now(engine.load_corpus(TEXT, TEXT[500:]))
    for steps in (1, 60, 5):
        print(run_now(engine.train(steps)))
        print(bits([list(metrics) for metrics in run_now(engine.read_metrics())]))
    print(bits(run_now(validate(engine))))
    print(bits(run_now(engine.window_losses([b"abc", b"def", b"ghi"]))))
    print(run_now(engine.likeliest_bytes([b"abc", b"d", b"efghi"])))
    print(run_now(engine.begin_text(b"abc", config.SampleConfig(seed=2**32 - 1), 7, bytes([31, 69, 255]))))
    print(run_now(engine.continue_text(8)))
    for wrong in (engine.prefill(b""), engine.decode(256), engine.window_losses([b"a"]), engine.likeliest_bytes([b""])):
        try:
            run_now(wrong)
            print("accepted")
        except TinyGPTError as error:
            print("refused:", error)
    desk = Desk(engine, 2)
    texts = [desk.join(prompt, config.SampleConfig(tokens=12), stops) for prompt, stops in PROMPTS]
    while not desk.empty():
        made = run_now(desk.more())
        print([(texts.index(text), made[text]) for text in texts if text in made])
    for player in engine.machine.opened:
        print(player.asked, bits(player.rates), player.closed, sum(player.memory))

engine = fake_engine(run)
watcher = Watcher(run, engine, ["blocks.*.dqkv", "d*fc_in.weight"], 5)
run_now(engine.load_corpus(TEXT, TEXT[500:]))
run_now(engine.train(2))
print(bits(run_now(watcher.look(2))), [tensor.name for tensor in engine.lowered.tensors])
