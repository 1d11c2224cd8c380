#!/usr/bin/env python3
"""Records tests/fixtures: what the PyPI package `gguf` decodes and encodes, for the tests to hold this crate against;
and writes src/dtype/grids: the tables of the IQ types, packed (src/dtype/grids.rs says how).

    python3 -m venv venv && venv/bin/pip install gguf numpy llama-cpp-python
    venv/bin/python record_fixtures.py

Per type TYPE: `TYPE.decode.blocks` holds random valid blocks and `TYPE.decode.f32` their values; `TYPE.encode.f32` (one
for all types, `encode.f32`) holds values and `TYPE.encode.blocks` the blocks that they become. `gguf` has no encoders for
types that are searched for: those come from ggml's own library, which the package `llama-cpp-python` carries. Without
that package the files that are already there stay. Where the package is there, every decoded value is also compared with what ggml's library gives.

`gguf` decodes neither Q8_1 nor Q8_K, so their definition is written down below; ggml's library decodes Q8_K only.
"""

import ctypes
import pathlib

import numpy as np
from gguf import GGMLQuantizationType as T
from gguf import quants
from gguf.constants import GGML_QUANT_SIZES

SEED = 20240229
BLOCKS = {T.F16: 2048, T.BF16: 2048, T.Q8_0: 48, T.Q4_0: 64, T.Q5_0: 64, T.Q4_K: 12, T.Q5_K: 12, T.Q6_K: 12}
# Types that were added later are drawn from generators of their own, so that what was recorded before stays.
LATER = {T.Q2_K: 8, T.Q3_K: 8, T.IQ2_XXS: 8, T.IQ2_XS: 8, T.IQ2_S: 8, T.IQ3_XXS: 8, T.IQ3_S: 8, T.IQ1_S: 8, T.IQ1_M: 8}
LATER |= {T.TQ1_0: 8, T.TQ2_0: 8, T.NVFP4: 24, T.Q8_1: 32, T.Q8_K: 6}
LATER |= {T.Q4_1: 64, T.Q5_1: 64, T.IQ4_NL: 64, T.IQ4_XS: 12, T.MXFP4: 64}
# Where in a block its f16 scales are: bits there are random only as far as they make finite numbers.
SCALES = {T.F16: [0], T.Q8_0: [0], T.Q4_0: [0], T.Q5_0: [0], T.Q4_K: [0, 2], T.Q5_K: [0, 2], T.Q6_K: [208]}
SCALES |= {T.Q2_K: [80, 82], T.Q3_K: [108], T.TQ1_0: [52], T.TQ2_0: [64], T.Q8_1: [0, 2]}
SCALES |= {T.Q4_1: [0, 2], T.Q5_1: [0, 2], T.IQ4_NL: [0], T.IQ4_XS: [0]}
SCALES |= {kind: [0] for kind in (T.IQ2_XXS, T.IQ2_XS, T.IQ2_S, T.IQ3_XXS, T.IQ3_S, T.IQ1_S)}
SEARCHED = (T.Q2_K, T.Q3_K, T.Q4_K, T.Q5_K, T.Q6_K, T.IQ3_S, T.IQ4_NL, T.IQ4_XS)
ENCODED = (T.F16, T.BF16, T.Q8_0, T.Q4_0, T.Q5_0, T.Q4_1, T.Q5_1, T.MXFP4, T.TQ1_0, T.TQ2_0)
# `gguf` counts the two numbers at the head of Q8_1 as f32; in ggml they are f16.
BLOCK_BYTES = {kind: size for kind, (_, size) in GGML_QUANT_SIZES.items()} | {T.Q8_1: 36}
FOLDER = pathlib.Path(__file__).parent / "fixtures"
GRIDS = pathlib.Path(__file__).parent.parent / "src" / "dtype" / "grids"


def blocks(rng: np.random.Generator, kind: T) -> np.ndarray:
    out = rng.integers(0, 256, ((BLOCKS | LATER)[kind], BLOCK_BYTES[kind]), dtype=np.uint8)
    if kind in LATER:
        # The least and the greatest number of every field.
        out[0], out[1] = 0, 255
    for at in SCALES.get(kind, []):
        out[:, at : at + 2] = scales(rng, len(out)).view(np.uint8).reshape(-1, 2)
    if kind == T.IQ1_M:
        # Each u16 of the scales has four bits of the block's scale on top.
        words = out[:, 48:].view("<u2")
        words[:] = words & 0x0FFF | (scales(rng, len(out))[:, None] >> np.array([0, 4, 8, 12]) & 15) << 12
    if kind == T.NVFP4:
        # Zeros of both signs, what is not a number and what stands in its place, the least and the greatest number.
        out[2:4, :4] = [[0x00, 0x80, 0x7F, 0xFF], [0x01, 0x07, 0x08, 0x7E]]
    if kind == T.Q8_K:
        out[:, :4] = rng.normal(0, 0.01, len(out)).astype("<f4").view(np.uint8).reshape(-1, 4)
    if kind == T.BF16:
        values = out.view("<u2")
        values[(values & 0x7F80) == 0x7F80] = 0x7F80
    if kind == T.MXFP4:
        # The exponents whose scales are subnormal, those beside them, and the largest.
        out[:6, 0] = (0, 1, 2, 3, 254, 255)
    return out


def scales(rng: np.random.Generator, count: int) -> np.ndarray:
    """Half of the scales are of usual size, half are any finite number, subnormal ones included."""
    bits = rng.integers(0, 0x7C00, count, dtype=np.uint16) | (rng.integers(0, 2, count, dtype=np.uint16) << 15)
    usual = rng.normal(0, 0.01, count).astype(np.float16).view(np.uint16)
    return np.where(np.arange(count) % 2 == 0, usual, bits).astype("<u2")


def decode(encoded: np.ndarray, kind: T) -> np.ndarray:
    if kind == T.Q8_1:
        # f16 d, f16 d * sum(q), 32 i8 q
        return encoded[:, :2].copy().view("<f2").astype("<f4") * encoded[:, 4:].view(np.int8).astype("<f4")
    if kind == T.Q8_K:
        # f32 d, 256 i8 q, 16 i16 sums of q
        return encoded[:, :4].copy().view("<f4") * encoded[:, 4:260].view(np.int8).astype("<f4")
    return quants.dequantize(encoded, kind).astype("<f4")


def compare_with_ggml(encoded: np.ndarray, decoded: np.ndarray, kind: T) -> str:
    try:
        from llama_cpp import _ggml
    except ImportError:
        return "not compared with ggml"

    class Traits(ctypes.Structure):
        _fields_ = [("name", ctypes.c_char_p), ("block", ctypes.c_int64), ("interleave", ctypes.c_int64)]
        _fields_ += [("block_bytes", ctypes.c_size_t), ("quantised", ctypes.c_bool), ("to_float", ctypes.c_void_p)]

    traits = _ggml.libggml.ggml_get_type_traits
    traits.argtypes, traits.restype = [ctypes.c_int], ctypes.POINTER(Traits)
    traits = traits(kind.value).contents
    assert traits.name.decode().upper() == kind.name and traits.block_bytes == encoded.shape[1], kind
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    if traits.to_float:
        to_float = function(traits.to_float)
    elif kind == T.Q8_K:
        to_float = function(("dequantize_row_q8_K", _ggml.libggml))
    else:
        return "ggml does not decode it"
    out = np.zeros(decoded.size, dtype=np.float32)
    to_float(np.ascontiguousarray(encoded).ctypes.data, out.ctypes.data, out.size)
    assert (out.view(np.uint32) == decoded.view(np.uint32).ravel()).all(), f"{kind.name}: gguf and ggml differ"
    return "equals ggml"


def grid(kind: type) -> np.ndarray:
    """The levels of each vector, packed into a u16."""
    kind.init_grid()
    elements = kind.grid_shape[1]
    levels = np.searchsorted(kind.grid_map, kind.grid.reshape(kind.grid_shape)).astype(np.uint16)
    assert (np.array(kind.grid_map)[levels] == kind.grid.reshape(kind.grid_shape)).all(), kind
    return np.bitwise_or.reduce(levels << np.arange(0, 16, 16 // elements, dtype=np.uint16), axis=1).astype("<u2")


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


def search(x: np.ndarray, kind: T) -> bytes | None:
    """The blocks of rows of 256 elements, as llama.cpp makes them without an importance matrix."""
    try:
        from llama_cpp import _ggml
    except ImportError:
        return None
    encode = _ggml.libggml.ggml_quantize_chunk
    encode.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p] + 3 * [ctypes.c_int64] + [ctypes.c_void_p]
    encode.restype = ctypes.c_size_t
    block, block_bytes = GGML_QUANT_SIZES[kind]
    out = np.zeros(x.size // block * block_bytes, dtype=np.uint8)
    written = encode(kind.value, np.ascontiguousarray(x).ctypes.data, out.ctypes.data, 0, x.size // 256, 256, None)
    assert written == out.size, kind.name
    return out.tobytes()


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    rng = np.random.default_rng(SEED)
    for kind in BLOCKS | LATER:
        encoded = blocks(np.random.default_rng([SEED, kind.value]) if kind in LATER else rng, kind)
        (FOLDER / f"{kind.name}.decode.blocks").write_bytes(encoded.tobytes())
        decoded = decode(encoded, kind)
        (FOLDER / f"{kind.name}.decode.f32").write_bytes(decoded.tobytes())
        print(f"{kind.name}: {compare_with_ggml(encoded, decoded, kind)}")
    x = values(rng)
    (FOLDER / "encode.f32").write_bytes(x.astype("<f4").tobytes())
    for kind in ENCODED:
        with np.errstate(over="ignore", divide="ignore"):
            (FOLDER / f"{kind.name}.encode.blocks").write_bytes(quants.quantize(x, kind).tobytes())
    for kind in SEARCHED:
        blocks_of_kind = search(x, kind)
        if blocks_of_kind is not None:
            (FOLDER / f"{kind.name}.encode.blocks").write_bytes(blocks_of_kind)
    GRIDS.mkdir(exist_ok=True)
    for name in ("IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ1_S"):
        # IQ1_S and IQ1_M share theirs.
        (GRIDS / f"{name.replace('IQ1_S', 'IQ1').lower()}.bin").write_bytes(grid(getattr(quants, name)).tobytes())


if __name__ == "__main__":
    main()
