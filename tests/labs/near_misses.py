"""Attempts at mending each mutant that come close: in place of the lines that its patch adds."""

NEAR = {
    "mutant-01": [
        ["    return np.where(np.tri(T, dtype=bool).T, scores, -np.inf)"],
        ["    return np.where(np.tri(T, dtype=bool), scores, 0.0)"],
        ["    return np.where(np.tri(T, k=-1, dtype=bool) | (np.arange(T) == 0), scores, -np.inf)"],
    ],
    "mutant-02": [
        ["    if step < train.warmup:", "        return train.lr * (step - 1) / train.warmup"],
        ["    if step <= train.warmup + 1:", "        return train.lr * step / train.warmup"],
        ["    if step <= train.warmup:", "        return train.lr"],
    ],
    "mutant-03": [
        ["    dwte[tokens] = dwte[tokens] + dx"],
        ["    np.add.at(dwte, tokens, dx / N)"],
        ["    dwte[...] += dx.sum(axis=0)"],
    ],
    "mutant-04": [
        ["    return dx_mid"],
        ['    return p.add(dx_attn, dx_out, block + "dx")'],
        ['    return p.add(dx_attn, dx_attn, block + "dx")'],
    ],
    "mutant-05": [
        ["    through_norm = dn - through_mean - through_rstd"],
        ["    through_norm = rstd * (dn - dn.mean() - through_rstd)"],
        ["    through_norm = rstd * (dn - mean - through_rstd)"],
    ],
    "mutant-06": [
        ["    ds = p * (dp - dp.sum(axis=-1, keepdims=True)) / math.sqrt(D)"],
        ["    ds = p * (dp - (dY * Y).sum(axis=-1, keepdims=True))"],
        ["    ds = p * (dp - (dY * Y).mean(axis=-1, keepdims=True)) / math.sqrt(D)"],
    ],
    "mutant-07": [
        ["            dqkv = dqkv"],
        ['            dqkv = self.rotary(name + ".rotary", s.qkv, angles, inverse=1)'],
        ['            dqkv = self.rotary(name + ".back", self.rotary(name + ".rotary", dqkv, angles, 1), angles, 1)'],
    ],
    "mutant-08": [
        ["        N=p.N, V=VOCAB, count=p.N, smoothing=train.label_smoothing,"],
        ["        N=p.N, V=VOCAB, count=count // p.T, smoothing=train.label_smoothing,"],
        ["        N=p.N, V=VOCAB, count=count * train.batch, smoothing=train.label_smoothing,"],
    ],
    "mutant-09": [
        ["        dbias[...] = dy.sum(axis=0)"],
        ["        dbias[...] = (dbias if accumulate else 0) + dy.sum(axis=0) / O"],
        ["        dbias[...] = (dbias if accumulate else 0) + dy[0]"],
    ],
    "mutant-10": [
        [
            "    scores = q @ k.swapaxes(-1, -2) / math.sqrt(D)",
            "    ds = p * (dp - (dY * Y).sum(axis=-1, keepdims=True))",
        ],
        [
            "    scores = q @ k.swapaxes(-1, -2) / D",
            "    ds = p * (dp - (dY * Y).sum(axis=-1, keepdims=True)) / D",
        ],
        [
            "    scores = q @ k.swapaxes(-1, -2) / math.sqrt(H * D)",
            "    ds = p * (dp - (dY * Y).sum(axis=-1, keepdims=True)) / math.sqrt(H * D)",
        ],
    ],
    "mutant-11": [
        ["    root_correction = 1.0 / (1.0 - train.beta2**step)"],
        ["    root_correction = 1.0 / (1.0 - train.beta1**step) ** 0.5"],
        ["    root_correction = 1.0"],
    ],
    "mutant-12": [
        ["        decayed=0, rows=rows, columns=columns,"],
        ["        decayed=memory.layout.decayed, rows=rows, columns=columns,"],
        ["        decayed=max(0, memory.layout.decayed - start - 1), rows=rows, columns=columns,"],
    ],
    "mutant-13": [
        ["    return 1.0 / max(1.0, train.average * train.steps)"],
        ["    return 1.0 / min(1.0 + step, max(1.0, train.average * train.steps))"],
        ["    return 1.0 / min(1.0 + 0.1 * step, max(1.0, train.average))"],
    ],
    "mutant-14": [
        ["        own_k[-1] = k.reshape(-1)", "        own_v[max(0, rows - 2)] = v.reshape(-1)"],
        ["        own_k[-1] = v.reshape(-1)", "        own_v[-1] = k.reshape(-1)"],
        ["        own_k[0] = k.reshape(-1)", "        own_v[0] = v.reshape(-1)"],
    ],
}
