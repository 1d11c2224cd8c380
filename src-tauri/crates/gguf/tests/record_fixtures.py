#!/usr/bin/env python3
"""Records tests/fixtures: what the PyPI package `gguf` decodes and encodes, for the tests to hold this crate against.

    python3 -m venv venv && venv/bin/pip install gguf numpy llama-cpp-python
    venv/bin/python record_fixtures.py

Per type TYPE: `TYPE.decode.blocks` holds random valid blocks and `TYPE.decode.f32` their values; `TYPE.encode.f32` (one
for all types, `encode.f32`) holds values and `TYPE.encode.blocks` the blocks that they become. `gguf` has no encoder for
Q6_K: it comes from ggml's own library, which the package `llama-cpp-python` carries. Without that package the file that
is already there stays.
"""

import ctypes
import pathlib

import numpy as np
from gguf import GGMLQuantizationType as T
from gguf import quants
from gguf.constants import GGML_QUANT_SIZES

SEED = 20240229
# The first types and the values to encode come from one generator, one after the other.
BLOCKS = {T.F16: 2048, T.BF16: 2048, T.Q8_0: 48, T.Q4_0: 64, T.Q5_0: 64, T.Q4_K: 12, T.Q5_K: 12, T.Q6_K: 12}
# Each later type has a generator of its own, so that one more type changes no other fixture.
LATER_BLOCKS = {T.Q4_1: 64, T.Q5_1: 64, T.IQ4_NL: 64, T.IQ4_XS: 12, T.MXFP4: 64}
# Where in a block its f16 scales are: bits there are random only as far as they make finite numbers.
SCALES = {T.F16: [0], T.Q8_0: [0], T.Q4_0: [0], T.Q5_0: [0], T.Q4_K: [0, 2], T.Q5_K: [0, 2], T.Q6_K: [208]}
SCALES |= {T.Q4_1: [0, 2], T.Q5_1: [0, 2], T.IQ4_NL: [0], T.IQ4_XS: [0]}
ENCODED = (T.F16, T.BF16, T.Q8_0, T.Q4_0, T.Q5_0, T.Q4_1, T.Q5_1, T.MXFP4)
FOLDER = pathlib.Path(__file__).parent / "fixtures"


def blocks(rng: np.random.Generator, kind: T) -> np.ndarray:
    block_bytes = GGML_QUANT_SIZES[kind][1]
    count = (BLOCKS | LATER_BLOCKS)[kind]
    out = rng.integers(0, 256, (count, block_bytes), dtype=np.uint8)
    for at in SCALES.get(kind, []):
        # Half of the scales are of usual size, half are any finite number, subnormal ones included.
        bits = rng.integers(0, 0x7C00, len(out), dtype=np.uint16) | (rng.integers(0, 2, len(out), dtype=np.uint16) << 15)
        usual = rng.normal(0, 0.01, len(out)).astype(np.float16).view(np.uint16)
        out[:, at : at + 2] = np.where(np.arange(len(out)) % 2 == 0, usual, bits).astype("<u2").view(np.uint8).reshape(-1, 2)
    if kind == T.BF16:
        values = out.view("<u2")
        values[(values & 0x7F80) == 0x7F80] = 0x7F80
    if kind == T.MXFP4:
        # The exponents whose scales are subnormal, those beside them, and the largest.
        out[:6, 0] = (0, 1, 2, 3, 254, 255)
    return out


def values(rng: np.random.Generator) -> np.ndarray:
    """Rows of 256: usual weights, each magnitude, equal extremes of both signs, ties, zeros, sparse and tiny rows."""
    rows = [rng.normal(0, 0.02, 256) for _ in range(30)]
    rows += [rng.normal(0, 10.0**e, 256) for e in (-6, -3, 0, 3)]
    rows += [np.zeros(256), np.where(rng.random(256) < 0.05, rng.normal(0, 1, 256), 0.0)]
    rows += [rng.choice([-1.0, 1.0], 256), rng.integers(-16, 17, 256) / 2.0, rng.standard_t(1.5, 256)]
    rows += [np.full(256, 1e-30), -np.abs(rng.normal(0, 1, 256)), np.abs(rng.normal(0, 1, 256))]
    mixed = rng.normal(0, 1, 256) * 10.0 ** np.repeat(rng.integers(-5, 3, 16), 16)
    mixed[64:96] = 0.0
    rows += [mixed]
    return np.array(rows, dtype=np.float32)


def encode_q6_k(x: np.ndarray) -> bytes | None:
    try:
        from llama_cpp import _ggml
    except ImportError:
        return None
    encode = _ggml.libggml.quantize_row_q6_K_ref
    encode.argtypes, encode.restype = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64], None
    out = np.zeros(x.size // 256 * 210, dtype=np.uint8)
    encode(np.ascontiguousarray(x).ctypes.data, out.ctypes.data, x.size)
    return out.tobytes()


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    rng = np.random.default_rng(SEED)
    for kind in BLOCKS | LATER_BLOCKS:
        encoded = blocks(rng if kind in BLOCKS else np.random.default_rng([SEED, kind.value]), kind)
        (FOLDER / f"{kind.name}.decode.blocks").write_bytes(encoded.tobytes())
        with np.errstate(over="ignore"):
            decoded = quants.dequantize(encoded, kind).astype("<f4")
        (FOLDER / f"{kind.name}.decode.f32").write_bytes(decoded.tobytes())
    x = values(rng)
    (FOLDER / "encode.f32").write_bytes(x.astype("<f4").tobytes())
    for kind in ENCODED:
        with np.errstate(over="ignore", divide="ignore"):
            (FOLDER / f"{kind.name}.encode.blocks").write_bytes(quants.quantize(x, kind).tobytes())
    q6_k = encode_q6_k(x)
    if q6_k is not None:
        (FOLDER / "Q6_K.encode.blocks").write_bytes(q6_k)


if __name__ == "__main__":
    main()
