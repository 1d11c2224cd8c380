#!/usr/bin/env python3
"""Records tests/fixtures: what the PyPI package `gguf` decodes and encodes, which the tests compare with this crate;
and writes src/dtype/grids: the tables of the IQ types, packed (as src/dtype/grids.rs describes).

    python3 -m venv venv && venv/bin/pip install gguf numpy llama-cpp-python
    venv/bin/python record_fixtures.py

Per type TYPE: `TYPE.decode.blocks` holds random valid blocks and `TYPE.decode.f32` their values; `TYPE.encode.f32` (one
for all types, `encode.f32`) holds values and `TYPE.encode.blocks` the blocks that they become. `importance.f32` holds the
importance of 256 columns and `TYPE.encode_weighted.blocks` the blocks of the same values with it. `gguf` has no encoders for
types whose scales are searched: those blocks come from ggml's own library, which the package `llama-cpp-python` carries.
Without that package the existing files stay. With it, every decoded value is also compared with that of ggml's library.

The types, their scales and which of them have encoders are read from `src/dtype.rs`: a new type needs no change here.

`gguf` decodes neither Q8_1 nor Q8_K, so their definition is written down below; ggml's library decodes Q8_K only.
"""

import ctypes
import pathlib
import re

import numpy as np
from gguf import GGMLQuantizationType as T
from gguf import quants
from gguf.constants import GGML_QUANT_SIZES

SEED = 20240229
# Blocks of the types that were recorded first, drawn from one generator in this order. Each later type has a generator of its
# own, so that a new type changes no earlier recording.
FIRST = {T.F16: 2048, T.BF16: 2048, T.Q8_0: 48, T.Q4_0: 64, T.Q5_0: 64, T.Q4_K: 12, T.Q5_K: 12, T.Q6_K: 12}
# Blocks of later types, where they are not 64 of 32 elements or 8 of 256.
COUNTS = FIRST | {T.NVFP4: 24, T.Q8_1: 32, T.Q8_K: 6, T.IQ4_XS: 12}
# `gguf` counts the two numbers at the head of Q8_1 as f32; in ggml they are f16.
BLOCK_BYTES = {kind: size for kind, (_, size) in GGML_QUANT_SIZES.items()} | {T.Q8_1: 36}
FOLDER = pathlib.Path(__file__).parent / "fixtures"
SOURCE = pathlib.Path(__file__).parent.parent / "src"
GRIDS = SOURCE / "dtype" / "grids"


def table() -> dict[T, str]:
    """The rows of quantised types in the table of `src/dtype.rs`, and those of the two short floats."""
    _, _, rows = (SOURCE / "dtype.rs").read_text().partition("\ntypes! {\n")
    rows, _, _ = rows.partition("\n}\n")
    found = dict(re.findall(r"^    (\w+) \{(.*?)\}(?=\n    ///|\Z)", rows, re.MULTILINE | re.DOTALL))
    return {T[name]: row for name, row in found.items() if "block: 1," not in row or T[name] in FIRST}


TYPES = table()


def scale_offsets(kind: T) -> list[int]:
    """Where in a block its f16 scales are: bits there are random only as far as they make finite numbers."""
    if kind == T.F16:
        return [0]
    offsets = re.search(r"Scales::F16\(&\[([\d, ]+)\]\)", TYPES[kind])
    return [int(offset) for offset in offsets.group(1).split(",")] if offsets else []


def has_encoder(kind: T) -> bool:
    return "..blocks!" in TYPES[kind] or "encode: Some" in TYPES[kind]


def has_weighted_encoder(kind: T) -> bool:
    return "encode_weighted: Some" in TYPES[kind]


def blocks(rng: np.random.Generator, kind: T) -> np.ndarray:
    count = COUNTS.get(kind, 64 if GGML_QUANT_SIZES[kind][0] == 32 else 8)
    out = rng.integers(0, 256, (count, BLOCK_BYTES[kind]), dtype=np.uint8)
    if kind not in FIRST:
        # The least and the greatest number of every field.
        out[0], out[1] = 0, 255
    for at in scale_offsets(kind):
        out[:, at : at + 2] = scales(rng, len(out)).view(np.uint8).reshape(-1, 2)
    if kind == T.IQ1_M:
        # Each u16 of the scales has four bits of the block's scale on top.
        words = out[:, 48:].view("<u2")
        words[:] = words & 0x0FFF | (scales(rng, len(out))[:, None] >> np.array([0, 4, 8, 12]) & 15) << 12
    if kind == T.NVFP4:
        # Zeros of both signs, not-a-number and the number in its place, the least and the greatest number.
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


def importance(rng: np.random.Generator) -> np.ndarray:
    """The importance of 256 columns: mean squares of usual size, some large ones, a few zeros, 32 zeros in a row."""
    columns = rng.chisquare(1, 256) * 10.0 ** rng.choice([-3, -1, -1, 0, 2], 256)
    columns[rng.integers(0, 256, 6)] = 0.0
    columns[160:192] = 0.0
    return columns.astype("<f4")


def search(x: np.ndarray, kind: T, columns: np.ndarray | None = None) -> bytes | None:
    """The blocks of rows of 256 elements, as llama.cpp makes them without or with an importance matrix."""
    try:
        from llama_cpp import _ggml
    except ImportError:
        return None
    encode = _ggml.libggml.ggml_quantize_chunk
    encode.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p] + 3 * [ctypes.c_int64] + [ctypes.c_void_p]
    encode.restype = ctypes.c_size_t
    block, block_bytes = GGML_QUANT_SIZES[kind]
    out = np.zeros(x.size // block * block_bytes, dtype=np.uint8)
    weights = None if columns is None else np.ascontiguousarray(columns).ctypes.data
    written = encode(kind.value, np.ascontiguousarray(x).ctypes.data, out.ctypes.data, 0, x.size // 256, 256, weights)
    assert written == out.size, kind.name
    return out.tobytes()


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    rng = np.random.default_rng(SEED)
    for kind in list(FIRST) + [kind for kind in TYPES if kind not in FIRST]:
        encoded = blocks(rng if kind in FIRST else np.random.default_rng([SEED, kind.value]), kind)
        (FOLDER / f"{kind.name}.decode.blocks").write_bytes(encoded.tobytes())
        decoded = decode(encoded, kind)
        (FOLDER / f"{kind.name}.decode.f32").write_bytes(decoded.tobytes())
        print(f"{kind.name}: {compare_with_ggml(encoded, decoded, kind)}")
    x = values(rng)
    (FOLDER / "encode.f32").write_bytes(x.astype("<f4").tobytes())
    for kind in filter(has_encoder, TYPES):
        try:
            with np.errstate(over="ignore", divide="ignore"):
                encoded = quants.quantize(x, kind).tobytes()
        except NotImplementedError:
            encoded = search(x, kind)
        if encoded is not None:
            (FOLDER / f"{kind.name}.encode.blocks").write_bytes(encoded)
    columns = importance(np.random.default_rng([SEED, 256]))
    (FOLDER / "importance.f32").write_bytes(columns.tobytes())
    for kind in filter(has_weighted_encoder, TYPES):
        encoded = search(x, kind, columns)
        if encoded is not None:
            (FOLDER / f"{kind.name}.encode_weighted.blocks").write_bytes(encoded)
    GRIDS.mkdir(exist_ok=True)
    for name in ("IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ1_S"):
        # IQ1_S and IQ1_M share theirs.
        (GRIDS / f"{name.replace('IQ1_S', 'IQ1').lower()}.bin").write_bytes(grid(getattr(quants, name)).tobytes())


if __name__ == "__main__":
    main()
