"""A GPT in one file: its program, a memory plan, a player, and the training loop, in NumPy alone.

    python microgpt.py                 learns its own source
    python microgpt.py my-text.txt     learns a text of yours

It is TinyGPT without the speed. The numbers are those of

    tinygpt train --preset tiny --recipe classic --activation relu2 --lr 0.001 --engine spec --without fuse

to the last bit. Read it from top to bottom; docs/learn/microgpt.md walks along.
"""

import math
import sys
import time

import numpy as np

# --- 1. What to train -----------------------------------------------------------------------------------------------

LAYERS, C, HEADS, T, V = 2, 48, 3, 32, 256  # blocks, width of the stream, attention heads, context, bytes there are
B, STEPS, SEED = 16, 1500, 1337  # windows in a batch
LR, BETA1, BETA2, EPS, DECAY, MOST_NORM = 1e-3, 0.9, 0.95, 1e-8, 0.1, 1.0
N, D, F = B * T, C // HEADS, 4 * C  # rows of a batch, width of a head, width inside an MLP

# --- 2. Randomness without state: a hash of (seed, purpose, counter) ------------------------------------------------

INIT, BATCH, EVAL, SAMPLE = 1, 2, 3, 4


def philox(purpose, *counter):
    """Philox4x32-10: four words of 32 bits for each counter; the first part of it may be an array."""
    first, *rest = [np.atleast_1d(np.asarray(part, np.uint64)) for part in (*counter, 0, 0, 0)[:4]]
    c, key, mask = [first, *[part + 0 * first for part in rest]], [SEED, purpose], np.uint64(0xFFFFFFFF)
    for _ in range(10):
        a, b = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [b >> 32 ^ c[1] ^ np.uint64(key[0]), b & mask, a >> 32 ^ c[3] ^ np.uint64(key[1]), a & mask]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return np.stack(c, axis=1)


def normal(index, size, std):
    """Start values of tensor number `index`, by Box and Muller: two uniform draws give two normal ones."""
    words = philox(INIT, np.arange((size + 3) // 4), 0, index).astype(np.float64)
    radius, angle = np.sqrt(-2 * np.log((words[:, 0::2] + 1) / 2**32)), 2 * np.pi * words[:, 1::2] / 2**32
    draws = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=2)
    return (draws.reshape(-1)[:size] * std).astype(np.float32)


def windows(text, purpose, step, part=0):
    """B windows of T bytes, and the byte that follows each of these."""
    words = philox(purpose, np.arange(part * B // 2, (part + 1) * B // 2), step).reshape(-1, 2).tolist()
    starts = [((high << 32 | low) * (len(text) - T)) >> 64 for high, low in words]
    rows = text[np.array(starts)[:, None] + np.arange(T + 1)]
    return rows[:, :-1].reshape(-1), rows[:, 1:].reshape(-1)


# --- 3. The ops: what each computes, and below it what it says to the loss's gradient -------------------------------
# An op writes the last of its arrays. `dx` is the gradient of the loss with respect to x: what a small change of x
# does to the loss.


def embed(tokens, table, places, x):
    x[...] = table[tokens] + places[np.arange(N) % T]


def embed_backward(tokens, dx, dplaces, dtable):
    np.add.at(dtable, tokens, dx)  # a byte that occurs twice gets both gradients; the head has put its own there
    dplaces[...] = 0
    np.add.at(dplaces, np.arange(N) % T, dx)


def linear(x, weight, bias, y):
    y[...] = x @ weight.T + bias


def linear_backward_weight(dy, x, dbias, dweight):
    dweight[...] = dy.T @ x  # each row n adds dy[n,o] x[n,i] to dweight[o,i]
    dbias[...] = dy.sum(axis=0)


def linear_backward_input(dy, weight, dx, more=False):
    dx[...] = (dx if more else 0) + dy @ weight  # `more`: x went into several maps, and each adds its part


def add(x, residual, y):
    y[...] = x + residual  # the gradient of a sum goes to both of its terms as it is


def norm(x, gain, bias, stats, y):
    stats[:, 0], stats[:, 1] = x.mean(axis=1), 1 / np.sqrt(x.var(axis=1) + 1e-5)
    y[...] = (x - stats[:, :1]) * stats[:, 1:] * gain + bias


def norm_backward(dy, x, gain, stats, dgain, dbias, dx):
    n, dn = (x - stats[:, :1]) * stats[:, 1:], dy * gain
    through_mean, through_scale = dn.mean(axis=1, keepdims=True), n * (dn * n).mean(axis=1, keepdims=True)
    dx[...] = stats[:, 1:] * (dn - through_mean - through_scale)
    dgain[...], dbias[...] = (dy * n).sum(axis=0), dy.sum(axis=0)


def square_relu(u, h):
    above = np.maximum(u, 0)
    h[...] = above * above


def square_relu_backward(dh, u, du):
    du[...] = dh * (2 * np.maximum(u, 0))


def heads_of(rows):
    """[N, k C] -> [k, B, HEADS, T, D]"""
    return rows.reshape(B, T, -1, HEADS, D).transpose(2, 0, 3, 1, 4)


def rows_of(heads):
    return heads.transpose(1, 3, 0, 2, 4).reshape(N, -1)


def scores_of(q, k):
    """How much each place asks of each: q k / sqrt(D), and of later places nothing."""
    return np.where(np.tri(T, dtype=bool), q @ k.swapaxes(-1, -2) / math.sqrt(D), -np.inf)


def log_sum_exp(scores):
    top = scores.max(axis=-1, keepdims=True)
    return top[..., 0] + np.log(np.exp(scores - top).sum(axis=-1))


def attention(qkv, sums, y):
    q, k, v = heads_of(qkv)
    scores = scores_of(q, k)
    sums[...] = log_sum_exp(scores)
    y[...] = rows_of((np.exp(scores - sums[..., None]) @ v)[None])  # a softmax, then the mean of the values by it


def attention_backward(dy, qkv, y, sums, dqkv):
    (q, k, v), (dY,), (Y,) = heads_of(qkv), heads_of(dy), heads_of(y)
    p = np.exp(scores_of(q, k) - sums[..., None])  # made again: cheaper than to keep T x T numbers per head
    dp = dY @ v.swapaxes(-1, -2)
    ds = p * (dp - (dY * Y).sum(axis=-1, keepdims=True)) / math.sqrt(D)
    dqkv[...] = rows_of(np.stack([ds @ k, ds.swapaxes(-1, -2) @ q, p.swapaxes(-1, -2) @ dY]))


def head(x, table, logits):
    logits[...] = x @ table.T  # the table of the embedding once more: how alike x is to each byte's row


def head_backward_table(dlogits, x, dtable):
    dtable[...] = dlogits.T @ x


def cross_entropy(logits, targets, dlogits, losses):
    sums, rows = log_sum_exp(logits), np.arange(N)
    losses[...] = sums - logits[rows, targets]  # -log of the probability that the right byte got
    dlogits[...] = np.exp(logits - sums[:, None])
    dlogits[rows, targets] -= 1
    dlogits /= N


# --- 4. The program: which op reads and writes which tensor; the backward pass is the mirror of the forward ---------

shapes, program = {}, []  # of each tensor its shape; the ops in their order: (op, names of tensors, constants)


def call(op, *names, **constants):
    program.append((op, names, constants))


def tensor(name, *shape):
    shapes[name] = shape
    return name


def parameters():
    """Name, shape and deviation of the start values; None: all 1, 0: all 0."""
    small, rows = 0.02 / math.sqrt(2 * LAYERS), [("table", (V, C), 0.02), ("places", (T, C), 0.02)]
    rows += [("final.gain", (C,), None), ("final.bias", (C,), 0)]
    for i in range(LAYERS):
        attention_maps = [("q", C, C, 0.02), ("k", C, C, 0.02), ("v", C, C, 0.02), ("o", C, C, small)]
        for part, maps in (("norm1", attention_maps), ("norm2", [("in", F, C, 0.02), ("out", C, F, small)])):
            rows += [(f"{i}.{part}.gain", (C,), None), (f"{i}.{part}.bias", (C,), 0)]
            for which, outputs, inputs, std in maps:
                rows += [(f"{i}.{which}.weight", (outputs, inputs), std), (f"{i}.{which}.bias", (outputs,), 0)]
    return rows


def write_linear(x, which, y):
    call(linear, x, f"{which}.weight", f"{which}.bias", y)


def write_linear_backward(dy, x, which, dx, more=False):
    call(linear_backward_input, dy, f"{which}.weight", dx, more=more)
    call(linear_backward_weight, dy, x, f"d{which}.bias", f"d{which}.weight")


def write_norm(x, which, y):
    call(norm, x, f"{which}.gain", f"{which}.bias", tensor(f"{y}.stats", N, 2), tensor(y, N, C))


def write_norm_backward(dy, x, y, which, dx):
    call(norm_backward, dy, x, f"{which}.gain", f"{y}.stats", f"d{which}.gain", f"d{which}.bias", tensor(dx, N, C))


def write_program():
    """One step up to the gradients. Returns how many of its ops are the forward pass."""
    call(embed, "tokens", "table", "places", tensor("0.x", N, C))
    for i in range(LAYERS):
        write_norm(f"{i}.x", f"{i}.norm1", f"{i}.a")
        tensor(f"{i}.qkv", N, 3 * C)
        for part in range(3):
            write_linear(f"{i}.a", f"{i}.{'qkv'[part]}", f"{i}.qkv[{part}]")
        call(attention, f"{i}.qkv", tensor(f"{i}.sums", B, HEADS, T), tensor(f"{i}.y", N, C))
        write_linear(f"{i}.y", f"{i}.o", tensor(f"{i}.attended", N, C))
        call(add, f"{i}.attended", f"{i}.x", tensor(f"{i}.mid", N, C))
        write_norm(f"{i}.mid", f"{i}.norm2", f"{i}.b")
        write_linear(f"{i}.b", f"{i}.in", tensor(f"{i}.u", N, F))
        call(square_relu, f"{i}.u", tensor(f"{i}.h", N, F))
        write_linear(f"{i}.h", f"{i}.out", tensor(f"{i}.thought", N, C))
        call(add, f"{i}.thought", f"{i}.mid", tensor(f"{i + 1}.x", N, C))
    last = f"{LAYERS}.x"
    write_norm(last, "final", "f")
    call(head, "f", "table", tensor("logits", N, V))
    call(cross_entropy, "logits", "targets", tensor("dlogits", N, V), "losses")
    forward = len(program)

    call(linear_backward_input, "dlogits", "table", tensor("df", N, C))
    call(head_backward_table, "dlogits", "f", "dtable")
    write_norm_backward("df", last, "f", "final", f"d{last}")
    for i in reversed(range(LAYERS)):
        dx = f"d{i + 1}.x"
        write_linear_backward(dx, f"{i}.h", f"{i}.out", tensor(f"d{i}.h", N, F))
        call(square_relu_backward, f"d{i}.h", f"{i}.u", tensor(f"d{i}.u", N, F))
        write_linear_backward(f"d{i}.u", f"{i}.b", f"{i}.in", tensor(f"d{i}.b", N, C))
        write_norm_backward(f"d{i}.b", f"{i}.mid", f"{i}.b", f"{i}.norm2", f"d{i}.through")
        call(add, f"d{i}.through", dx, tensor(f"d{i}.mid", N, C))
        write_linear_backward(f"d{i}.mid", f"{i}.y", f"{i}.o", tensor(f"d{i}.y", N, C))
        call(attention_backward, f"d{i}.y", f"{i}.qkv", f"{i}.y", f"{i}.sums", tensor(f"d{i}.qkv", N, 3 * C))
        tensor(f"d{i}.a", N, C)
        for part in range(3):
            write_linear_backward(f"d{i}.qkv[{part}]", f"{i}.a", f"{i}.{'qkv'[part]}", f"d{i}.a", more=part > 0)
        write_norm_backward(f"d{i}.a", f"{i}.x", f"{i}.a", f"{i}.norm1", f"d{i}.attention")
        call(add, f"d{i}.attention", f"d{i}.mid", tensor(f"d{i}.x", N, C))
    call(embed_backward, "tokens", "d0.x", "dplaces", "dtable")
    return forward


# --- 5. The memory plan: a tensor takes the lowest place that is free from its first op to its last -----------------


def plan():
    """Where each tensor of a step starts, in numbers, and how many there are in all."""
    life = {}
    for at, (_, names, _) in enumerate(program):
        for name in [name.split("[")[0] for name in names]:
            if name in shapes:
                life[name] = (life.get(name, (at,))[0], at)
    places = {}
    for name in sorted(life, key=lambda name: -math.prod(shapes[name])):  # large ones first
        size, start = math.prod(shapes[name]), 0
        for other, begin in sorted(places.items(), key=lambda item: item[1]):
            together = life[name][0] <= life[other][1] and life[other][0] <= life[name][1]
            if together and start + size > begin:
                start = max(start, begin + math.prod(shapes[other]))
        places[name] = start
    return places, max(start + math.prod(shapes[name]) for name, start in places.items())


# --- 6. The player: every name becomes an array, then the ops run one after the other -------------------------------


class Player:
    def __init__(self):
        rows = parameters()
        starts, size = {}, 0
        for name, shape, _ in sorted(rows, key=lambda row: len(row[1]) == 1):  # matrices first: they decay
            starts[name], size = size, size + -(-math.prod(shape) // 64) * 64  # each at a round number
        self.decayed = min(starts[name] for name, shape, _ in rows if len(shape) == 1)
        self.weights, self.grads, self.m, self.v = [np.zeros(size, np.float32) for _ in range(4)]
        self.arrays = {"losses": np.zeros(N, np.float32)}
        for index, (name, shape, std) in enumerate(rows):
            here = slice(starts[name], starts[name] + math.prod(shape))
            self.arrays[name], self.arrays["d" + name] = [a[here].reshape(shape) for a in (self.weights, self.grads)]
            self.arrays[name][...] = 1 if std is None else normal(index, math.prod(shape), std).reshape(shape)
        places, size = plan()
        arena = np.full(size, np.nan, np.float32)  # what is read before it is written shows
        for name, start in places.items():
            self.arrays[name] = arena[start : start + math.prod(shapes[name])].reshape(shapes[name])
        for name in [name for name in places if name.endswith("qkv")]:
            for part in range(3):
                self.arrays[f"{name}[{part}]"] = self.arrays[name][:, part * C : (part + 1) * C]
        self.memory = size, sum(math.prod(shapes[name]) for name in places)

    def play(self, ops, tokens, targets):
        """The loss of a batch, and what the ops have written beside it."""
        self.arrays.update(tokens=tokens, targets=targets)
        for op, names, constants in ops:
            op(*[self.arrays[name] for name in names], **constants)
        return self.arrays["losses"].sum() / N

    def update(self, step):
        """AdamW, with the gradient's norm clipped."""
        grads, f32 = self.grads, np.float32
        norm = np.sqrt(np.square(grads).sum())
        g = grads * np.minimum(f32(1), f32(MOST_NORM) / (norm + f32(1e-6)))
        self.m[...] = f32(BETA1) * self.m + (1 - f32(BETA1)) * g
        self.v[...] = f32(BETA2) * self.v + (1 - f32(BETA2)) * g * g
        self.weights[: self.decayed] *= f32(1) - f32(LR * DECAY)
        size, correction = f32(LR / (1 - BETA1**step)), f32(1 / (1 - BETA2**step) ** 0.5)
        self.weights -= size * self.m / (np.sqrt(self.v) * correction + f32(EPS))


# --- 7. Training, and writing ---------------------------------------------------------------------------------------


def write(player, forward, prompt, count, temperature=0.8):
    """The prompt and what the model makes of it, byte by byte: the last T bytes decide the next."""
    text = list(prompt)
    for number in range(count):
        seen = text[-T:]
        player.play(forward, np.resize(np.array(seen + [0] * (T - len(seen))), N), np.zeros(N, int))
        logits = player.arrays["logits"][len(seen) - 1].astype(np.float64) / temperature
        chances = np.cumsum(np.exp(logits - logits.max()))
        text.append(int(np.searchsorted(chances, chances[-1] * philox(SAMPLE, number)[0, 0] / 2**32, "right")))
    return bytes(text)


def main():
    path = sys.argv[1] if len(sys.argv) > 1 else __file__
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        sys.exit(f"{path} cannot be read: {error.strerror}")
    cut = len(data) - int(len(data) * 0.1)
    if cut <= 10 * T:
        sys.exit(f"{len(data)} bytes are too few to learn from; take a text of at least {12 * T}")
    train, held_out = [np.frombuffer(part, np.uint8).astype(int) for part in (data[:cut], data[cut:])]
    forward = write_program()
    player = Player()
    arena, total = player.memory
    print(f"{len(player.weights):,} parameters, {len(program)} ops; {total:,} numbers of a step in {arena:,} places")

    began = time.perf_counter()
    for step in range(1, STEPS + 1):
        loss = player.play(program, *windows(train, BATCH, step))
        player.update(step)
        if step == 1 or step % 100 == 0:
            print(f"step {step:5}  loss {loss:.4f}  {time.perf_counter() - began:.0f} s", flush=True)
    losses = [player.play(program[:forward], *windows(held_out, EVAL, 0, part)) for part in range(8)]
    print(f"held-out loss {sum(losses) / 8:.4f}; a model that knows nothing has {math.log(V):.4f}\n")
    print(write(player, program[:forward], b"\n", 400).decode(errors="replace"))


if __name__ == "__main__":
    main()
