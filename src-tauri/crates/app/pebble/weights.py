"""Reads Pebble's weights: from a checkpoint of train.py, or from a GGUF of export.py, whose Q8_0 blocks become f32.

The repository keeps only the GGUF, so it is where a short training run begins after a fact has changed. The reader
knows the types that export.py writes and no others.
"""

import math
import struct
from pathlib import Path

import numpy as np
import torch

from bpe import Bpe
from export import ALIGNMENT, ARRAY, BOOL, F32, I32, STRING, TYPE_F32, TYPE_Q8_0, U32, names
from model import SHAPE


def number(file, code):
    """One little-endian number; `code` is its type in `struct`."""
    return struct.unpack(f"<{code}", file.read(struct.calcsize(f"<{code}")))[0]


def string(file):
    return file.read(number(file, "Q")).decode()


def value(file, kind):
    """One metadata value of the given type."""
    if kind == STRING:
        return string(file)
    if kind == ARRAY:
        kind, count = number(file, "I"), number(file, "Q")
        return [value(file, kind) for _ in range(count)]
    return number(file, {U32: "I", I32: "i", F32: "f", BOOL: "?"}[kind])


def tensor(data, kind, dims):
    """A tensor from the bytes where it begins; `dims` names the contiguous axis first."""
    count, shape = math.prod(dims), list(reversed(dims))
    if kind == TYPE_F32:
        numbers = np.frombuffer(data, "<f4", count)
    else:
        assert kind == TYPE_Q8_0, f"export.py writes no tensors of type {kind}"
        blocks = np.frombuffer(data, [("scale", "<f2"), ("quants", "i1", 32)], count // 32)
        numbers = blocks["scale"].astype(np.float32)[:, None] * blocks["quants"]
    return torch.from_numpy(numbers.astype(np.float32).reshape(shape))


def read_gguf(path):
    """The state of the model in a GGUF file, and its metadata."""
    with open(path, "rb") as file:
        assert file.read(4) == b"GGUF" and number(file, "I") == 3, f"{path} is not a GGUF file of version 3"
        tensors, entries = number(file, "Q"), number(file, "Q")
        metadata = {}
        for _ in range(entries):
            key = string(file)
            metadata[key] = value(file, number(file, "I"))
        table = {}
        for _ in range(tensors):
            name = string(file)
            dims = [number(file, "Q") for _ in range(number(file, "I"))]
            table[name] = dims, number(file, "I"), number(file, "Q")
        start = -(-file.tell() // ALIGNMENT) * ALIGNMENT
        file.seek(0)
        data = file.read()
    state = {}
    for name, key in names(SHAPE):
        dims, kind, offset = table[name]
        state[key] = tensor(memoryview(data)[start + offset :], kind, dims)
    return state, metadata


def load(path):
    """The state in a checkpoint or a GGUF file."""
    if Path(path).suffix != ".gguf":
        return torch.load(path)["model"]
    state, metadata = read_gguf(path)
    assert metadata["tokenizer.ggml.tokens"] == Bpe().tokens, f"{path} was trained with another tokenizer than bpe.json"
    return state
