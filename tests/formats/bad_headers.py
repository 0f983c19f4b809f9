"""Headers that every reader refuses, and with which words."""

import json
import struct

JSON_FAULTS = [
    (b"{", "broken JSON"),
    (b"\xff\xfe{}", "not UTF-8|broken JSON"),
    (b'{"config": NaN}', "NaN is not JSON"),
    (b"[]", "must be a JSON object"),
    (b"{}", "config must be a JSON object"),
    (b'{"config": {"layers": ' + b"9" * 5000 + b"}}", "a number of 5000 characters"),
    (b"[" * 100_000, "nested too deeply"),
    (b"[" * 1_000_000, "more than 131072 values"),
    (b'{"a": ["' + b'","' * 300_000 + b'"]}', "more than 131072 values"),
    (b'{"config": 1, "a": {"b": ":", "c": "\\\\", "b": 2}}', "states a key twice"),
    (b'{"config": 1, "a": 1, "\\u0061": 2}', "states a key twice"),
    (b'{"config": ' + b"[" * 900 + b"]" * 900 + b"}", "JSON object|nested too deeply"),
]

CHANGES = [
    ("config", [], "config must be a JSON object"),
    ("config.layers", "two", "model.layers must be a number"),
    ("config.layers", True, "model.layers must be a number"),
    ("config.layers", -1, "model.layers must be from"),
    ("config.layers", None, "config has no 'layers'"),
    ("config.layers", 3, "bytes of state"),
    ("config.heads", 3, "not divisible"),
    ("config.dModel", 65536, "dMlp must be"),
    ("config.ctx", 1048576, "bytes of state"),
    ("config.dMlp", 5, "dMlp"),
    ("manifest", {}, "manifest must be a list"),
    ("manifest", None, "manifest must be a list"),
    ("manifest", [], "manifest lists 0 tensors"),
    ("manifest.3", "ln_final.bias", r"manifest\[3\] must be a JSON object"),
    ("manifest.3.name", ["x"], "no tensor of this model"),
    ("manifest.3.name", "ln_final.weight", "listed twice"),
    ("manifest.0.shape", "256,4", "shape of token_embedding.weight must be a list"),
    ("manifest.0.shape", [256, -4], "a dimension of token_embedding.weight must be from"),
    ("manifest.0.shape", [256, 4.0], "must be a whole number"),
    ("manifest.2.shape", [True], "must be a whole number"),
    ("manifest.0.shape", [4, 256], r"must be \[256, 4\]"),
    ("manifest.0.shape", [10**15, 10**15], "must be from 1 to"),
    ("manifest.0.shape", [1] * 5000, "shape of token_embedding.weight"),
    ("manifest.1.floatOffset", 5, "floatOffset of position_embedding.weight must be 3072"),
    ("manifest.1.floatOffset", 3072.0, "must be a whole number"),
    ("manifest.1.floatOffset", None, "must be a whole number"),
    ("includesOptimizerState", False, "bytes of state"),
    ("includesOptimizerState", 1, "must be true or false"),
    ("slots", "mv", "slots must be a list of names"),
    ("slots", ["m", 5], "slots must be a list of names"),
    ("slots", ["m", "m"], "slots must be a list of names"),
    ("slots", ["m"], "bytes of state"),
    ("stateByteLength", 12, "promises 12 bytes"),
    ("stateByteLength", "12", "stateByteLength must be a whole number"),
    ("layout", "row_major", "layout must be"),
    ("layout", ["in_out"], "layout must be"),
    ("layout", "in_out", "shape of blocks.0.mlp.fc_in.weight"),
    ("dtype", "float16", "a file in float16 holds weights alone"),
    ("dtype", "bfloat16", "dtype must be 'float32', 'float16' or 'int8', not 'bfloat16'"),
    ("dtype", ["float16"], "dtype must be"),
    ("sha256", "00" * 32, "does not match its sha256"),
    ("sha256", 7, "sha256 must be text"),
    ("sha256", False, "sha256 must be text"),
    ("data", {"a": [[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]}, "the header is nested too deeply"),
]


def put(header: object, route: str, value: object) -> None:
    *folders, last = route.split(".")
    for key in folders:
        header = header[int(key) if isinstance(header, list) else key]
    header[int(last) if isinstance(header, list) else last] = value


def parts(raw: bytes) -> tuple[dict, bytes]:
    length = struct.unpack_from("<I", raw, 8)[0]
    return json.loads(raw[12 : 12 + length]), raw[12 + length :]
