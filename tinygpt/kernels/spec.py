"""Every kernel's specification by name: the living definition that the fast engines agree with.

A function takes the names of its line in `core/ops` as keywords: arrays in their shapes, absent
ones None, dims and scalars as numbers. It writes its outputs in place and computes in the arrays' own dtype.
"""

from __future__ import annotations

from collections.abc import Callable

from tinygpt.kernels.adamw import adamw, grad_norm
from tinygpt.kernels.attention import attention, attention_backward, attention_one, cache_fill
from tinygpt.kernels.average import average, copy
from tinygpt.kernels.cross_entropy import cross_entropy, mean_loss
from tinygpt.kernels.dropout import dropout
from tinygpt.kernels.embed import embed, embed_backward, embed_one
from tinygpt.kernels.init import constant, normal
from tinygpt.kernels.layernorm import layernorm, layernorm_backward
from tinygpt.kernels.likeliest import likeliest
from tinygpt.kernels.linear import linear, linear_activation, linear_backward_input, linear_backward_weight
from tinygpt.kernels.pick_row import pick_row
from tinygpt.kernels.qk_norm import qk_norm, qk_norm_backward
from tinygpt.kernels.record import count, record
from tinygpt.kernels.rmsnorm import rmsnorm, rmsnorm_backward
from tinygpt.kernels.rotary import rotary, rotary_table
from tinygpt.kernels.sample import sample
from tinygpt.kernels.sgd import sgd
from tinygpt.kernels.swiglu import swiglu, swiglu_backward
from tinygpt.kernels.windows import draw_windows

SPEC: dict[str, Callable[..., None]] = {
    function.__name__: function
    for function in (
        embed,
        embed_backward,
        layernorm,
        layernorm_backward,
        rmsnorm,
        rmsnorm_backward,
        linear,
        linear_activation,
        linear_backward_input,
        linear_backward_weight,
        swiglu,
        swiglu_backward,
        qk_norm,
        qk_norm_backward,
        rotary_table,
        rotary,
        attention,
        attention_backward,
        dropout,
        average,
        copy,
        cross_entropy,
        mean_loss,
        likeliest,
        grad_norm,
        adamw,
        sgd,
        embed_one,
        cache_fill,
        attention_one,
        pick_row,
        draw_windows,
        record,
        count,
        sample,
        normal,
        constant,
    )
}
