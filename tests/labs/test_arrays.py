"""Labs' arrays against NumPy: entry by entry, and under every specification that a step of ours uses."""

import numpy as np
import pytest
from on_arrays import as_ours, specification

from tinygpt.core.config import SampleConfig
from tinygpt.core.engine.contract import run_now
from tinygpt.core.presets import preset
from tinygpt.core.write.sampler import generate
from tinygpt.engines.spec_player import SpecPlayer, plain_engine
from tinygpt.kernels.spec import SPEC
from tinygpt.labs import arrays

TEXT = b"the quick brown fox jumps over the lazy dog. " * 60
SIZES = {
    "layers": 2,
    "d_model": 12,
    "heads": 3,
    "ctx": 5,
    "batch": 3,
    "dropout": 0.1,
    "ngram_rows": 256,
    "ngram_width": 4,
}
KINDS = {
    "classic": {},
    "modern": {"ngrams": "2,3"},
    "accumulated": {"ngrams": "", "grad_accum": 2, "kv_heads": 1},
    "gated": {"ngrams": "", "activation": "swiglu", "norm": "rmsnorm", "positions": "alibi", "optimizer": "sgd"},
    "recurrent": {"ngrams": "", "kind": "recurrent", "positions": "none", "qk_norm": "off"},
    "capped": {"ngrams": "", "activation": "relu2", "logit_cap": 9.0, "label_smoothing": 0.1, "norm_place": "post"},
}


def run_of(kind):
    changes = {**SIZES, **KINDS[kind]}
    return preset("tiny", "classic" if kind == "classic" else "modern").replace(**changes)


@pytest.mark.parametrize("kind", KINDS)
def test_every_op_of_a_step_and_of_writing_gives_numpys_numbers(kind, monkeypatch):
    """Each starts from NumPy's memory, so an error is the op's own."""
    engine, ours, seen = plain_engine(run_of(kind)), specification(), set()

    def play(player, mode, ops):
        for op in ops:
            given = player.arguments(mode, op)
            copied = {name: as_ours(value) for name, value in given.items()}
            SPEC[op.kernel](**given)
            ours[op.kernel](**copied)
            seen.add(op.kernel)
            for name in [name for name in op.declared.tensors if given[name] is not None]:
                got = np.array(copied[name].tolist(), dtype=float).reshape(given[name].shape)
                np.testing.assert_allclose(got, given[name], rtol=1e-12, atol=1e-12, err_msg=f"{op!r} {name}")

    monkeypatch.setattr(SpecPlayer, "play", play)
    run_now(engine.load_corpus(TEXT, TEXT))
    run_now(engine.train(2))
    run_now(generate(engine, 5, b"the quick", SampleConfig(tokens=7)))
    assert {"draw_windows", "linear", "cross_entropy", "grad_norm", "record", "sample"} <= seen
    if kind == "modern":
        assert {"rotary", "qk_norm_backward", "muon", "average", "ngram_embed", "adagrad_rows", "dropout"} <= seen


def test_start_values_are_the_same_bytes():
    run = run_of("classic")
    engine, ours = plain_engine(run), specification()
    run_now(engine.load_corpus(TEXT, b""))
    for op in engine.player.lowered.programs["init"].ops:
        given = engine.player.arguments("init", op)
        copied = {name: as_ours(value) for name, value in given.items()}
        ours[op.kernel](**copied)
        assert np.array_equal(np.array(copied["y"].tolist()), given["y"])


A = np.arange(24.0).reshape(2, 3, 4) - 7.5
EXPRESSIONS = [
    "x[1]", "x[:, 1]", "x[..., 2]", "x[0, ::-1, 1:3]", "x[:, None, 2]", "x[-1, -2, -3]", "x[1:1]", "x.T", "x[[1, 0, 1]]",
    "x[[1, 0], [2, 1]]", "x[:, [2, 0]]", "x[0][x[0][:, 0] > -5]", "x.reshape(6, -1)", "x.reshape(2, 3, 2, 2)",
    "x.transpose(1, 0, 2).reshape(3, 8)", "x[:, :, :2].reshape(2, 3, 2, 1)", "x.swapaxes(0, 2).reshape(-1)",
    "x + x[0]", "x * 2 - 1", "1 - x", "2.0 / x", "x ** 2", "2.0 ** x", "-x", "abs(x)", "x > 0", "x == x[0]", "x // 2.0",
    "x % 3.0", "x @ x.swapaxes(-1, -2)", "x[0] @ x[1].T", "x[0, 0] @ x[0, 1]", "x[0, 0] @ x[1].T", "x[1] @ x[0, 0]",
    "x.sum()", "x.sum(axis=1)", "x.sum(axis=(0, 2))", "x.mean(axis=-1, keepdims=True)", "x.var(axis=0)", "x.max(axis=2)",
    "x.min()", "x.argmax(axis=1)", "(x > 0).all(axis=0)", "np.exp(x)", "np.sqrt(np.abs(x))", "np.tanh(x)",
    "np.where(x > 0, x, 0)", "np.maximum(x, 0)", "np.minimum(x, x[0])", "np.tri(3, 4, k=1)", "np.eye(3)",
    "np.concatenate([x, x[:1]])", "np.stack([x[0], x[1]], axis=1)", "np.hstack([x[0], x[1]])", "np.split(x, 2, axis=2)[1]",
    "np.repeat(x, 2, axis=1)", "np.outer(x[0, 0], x[0, 1])", "np.arange(2, 9, 3)", "np.zeros((2, 3)) + np.ones(3)",
    "np.full((2, 2), 7)", "np.isfinite(x / 0.0)", "np.sign(x)", "np.linalg.norm(x)", "np.unique(np.abs(x))",
    "np.log(np.array([1.0, 0.0]))", "np.array([[1, 2], [3, 4]]) / 2", "np.expand_dims(x, 1)", "np.clip(x, -2, 3)",
]  # fmt: skip


@pytest.mark.parametrize("expression", EXPRESSIONS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_an_expression_has_numpys_shape_and_numbers(expression):
    wanted = np.asarray(eval(expression, {"np": np, "x": A}))
    got = eval(expression, {"np": arrays, "x": as_ours(A)})
    assert getattr(got, "shape", ()) == wanted.shape
    values = got.tolist() if isinstance(got, arrays.ndarray) else got
    np.testing.assert_allclose(
        np.array(values, dtype=float).reshape(wanted.shape), wanted.astype(float), rtol=1e-14, atol=1e-14
    )


STATEMENTS = [
    "x[...] = 3", "x[:, 1] = x[0, 0]", "x[0] += x[1]", "x[:, :, 1:3] *= 2", "x[[0, 1], [1, 2]] = -1", "x[0][x[0] > 0] = 9",
    "x.reshape(6, 4)[2:4] = 5", "x.transpose(2, 0, 1)[1] = 8", "x.T[0] -= 1", "np.add.at(x, [1, 1, 0], np.ones((3, 4)))",
    "x[:, [0, 2]] += 1", "a, b = x[0], x[1]; a -= b", "x[0, 0] = x[0, 0][::-1] * 1",
]  # fmt: skip


@pytest.mark.parametrize("statement", STATEMENTS)
def test_what_is_written_into_a_view_is_seen_as_in_numpy(statement):
    wanted, ours = A.copy(), as_ours(A)
    if "[x[0] > 0]" in statement:
        statement = "y = x[0].reshape(-1); y[y > 0] = 9"
    exec(statement, {"np": np, "x": wanted})
    exec(statement, {"np": arrays, "x": ours})
    np.testing.assert_array_equal(np.array(ours.tolist()), wanted)


@pytest.mark.parametrize(
    "wrong", ["x + np.ones(5)", "x[2]", "x[:, 3]", "x.reshape(5, 5)", "x[0, 0, 0, 0]", "x @ np.ones(3)"]
)
def test_what_numpy_refuses_is_refused(wrong):
    for np_, x in ((np, A), (arrays, as_ours(A))):
        with pytest.raises((ValueError, IndexError)):
            eval(wrong, {"np": np_, "x": x})
