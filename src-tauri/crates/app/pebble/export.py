"""Writes a checkpoint as GGUF: `/usr/bin/python3 export.py /tmp/pebble.pt ../assets/pebble.gguf`.

Matrices are Q8_0, norms F32; names and metadata are llama.cpp's for the architecture `llama` with a `llama-bpe`
tokenizer. Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

import struct
import sys
from pathlib import Path

import numpy as np
import torch

from bpe import Bpe
from model import SHAPE

TEMPLATE = (
    "{%- for message in messages -%}"
    "{{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' -}}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}"
)
U32, I32, F32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
NORMAL, CONTROL = 1, 3  # token types
ALIGNMENT = 32
TYPE_F32, TYPE_Q8_0, FILE_MOSTLY_Q8_0 = 0, 8, 7


def string(text):
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def value(kind, content):
    """One metadata value with its type."""
    if kind == STRING:
        return struct.pack("<I", kind) + string(content)
    return struct.pack("<I" + {U32: "I", F32: "f", BOOL: "?"}[kind], kind, content)


def array(kind, items):
    """A metadata array with its type."""
    code = {I32: "i", F32: "f"}.get(kind)
    body = b"".join(string(i) for i in items) if kind == STRING else struct.pack(f"<{len(items)}{code}", *items)
    return struct.pack("<IIQ", ARRAY, kind, len(items)) + body


def q8_0(matrix):
    """Blocks of 32 weights: an f16 scale and 32 signed bytes."""
    blocks = matrix.astype(np.float32).reshape(-1, 32)
    scale = np.abs(blocks).max(1, keepdims=True) / 127
    inverse = np.divide(1, scale, out=np.zeros_like(scale), where=scale > 0)
    scaled = blocks * inverse
    # llama.cpp rounds halves away from zero, numpy to even.
    quants = np.trunc(scaled + np.copysign(np.float32(0.5), scaled)).astype(np.int8)
    return np.concatenate([scale.astype("<f2").view(np.uint8).reshape(-1, 2), quants.view(np.uint8)], 1).tobytes()


def names(shape=SHAPE):
    """(name in the file, key of the state) of every tensor, in llama.cpp's order."""
    yield "token_embd.weight", "embedding"
    for layer in range(shape["layers"]):
        for theirs, ours in (
            ("attn_norm", "attn_norm"), ("attn_q", "q"), ("attn_k", "k"), ("attn_v", "v"), ("attn_output", "o"),
            ("ffn_norm", "ffn_norm"), ("ffn_gate", "gate"), ("ffn_up", "up"), ("ffn_down", "down"),
        ):
            yield f"blk.{layer}.{theirs}.weight", f"blocks.{layer}.{ours}.weight"
    yield "output_norm.weight", "norm.weight"


def write(state, bpe, path, shape=SHAPE, name="Pebble", about="The guide that comes with Cairn. It knows Cairn and nothing else."):
    """Writes the file of a decoder."""
    count = sum(t.numel() for t in state.values())
    metadata = {
        "general.architecture": value(STRING, "llama"),
        "general.name": value(STRING, name),
        "general.description": value(STRING, about),
        "general.license": value(STRING, "mit"),
        "general.size_label": value(STRING, f"{count / 1e6:.0f}M"),
        "general.file_type": value(U32, FILE_MOSTLY_Q8_0),
        "general.quantization_version": value(U32, 2),
        "general.alignment": value(U32, ALIGNMENT),
        "llama.block_count": value(U32, shape["layers"]),
        "llama.context_length": value(U32, shape["context"]),
        "llama.embedding_length": value(U32, shape["width"]),
        "llama.feed_forward_length": value(U32, shape["ffn"]),
        "llama.attention.head_count": value(U32, shape["heads"]),
        "llama.attention.head_count_kv": value(U32, shape["kv_heads"]),
        "llama.attention.layer_norm_rms_epsilon": value(F32, shape["eps"]),
        "llama.rope.dimension_count": value(U32, shape["width"] // shape["heads"]),
        "llama.rope.freq_base": value(F32, shape["rope_base"]),
        "llama.vocab_size": value(U32, shape["vocab"]),
        "tokenizer.ggml.model": value(STRING, "gpt2"),
        "tokenizer.ggml.pre": value(STRING, "llama-bpe"),
        "tokenizer.ggml.tokens": array(STRING, bpe.tokens),
        "tokenizer.ggml.token_type": array(I32, [CONTROL if i >= bpe.end else NORMAL for i in range(len(bpe.tokens))]),
        "tokenizer.ggml.merges": array(STRING, [" ".join(m) for m in bpe.merges]),
        "tokenizer.ggml.bos_token_id": value(U32, bpe.end),
        "tokenizer.ggml.eos_token_id": value(U32, bpe.im_end),
        "tokenizer.ggml.padding_token_id": value(U32, bpe.end),
        "tokenizer.ggml.add_bos_token": value(BOOL, False),
        "tokenizer.ggml.add_eos_token": value(BOOL, False),
        "tokenizer.chat_template": value(STRING, TEMPLATE),
    }
    write_file(path, metadata, [(name, state[key]) for name, key in names(shape)])


def write_file(path, metadata, tensors):
    """Writes packed metadata and named tensors. Matrices become Q8_0; positions, vectors and matrices without whole blocks stay F32."""
    table, data = b"", b""
    for name, tensor in tensors:
        flat = tensor.dim() != 2 or tensor.shape[-1] % 32 != 0 or "position" in name
        dims = list(reversed(tensor.shape))  # GGUF names the contiguous axis first.
        table += string(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, TYPE_F32 if flat else TYPE_Q8_0, len(data))
        data += tensor.numpy().astype("<f4").tobytes() if flat else q8_0(tensor.numpy())
        data += b"\0" * (-len(data) % ALIGNMENT)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    head += b"".join(string(key) + entry for key, entry in metadata.items()) + table
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(head + b"\0" * (-len(head) % ALIGNMENT) + data)
    count = sum(tensor.numel() for _, tensor in tensors)
    print(f"{path}: {path.stat().st_size / 1e6:.2f} MB, {count / 1e6:.2f}M parameters")


if __name__ == "__main__":
    write(torch.load(sys.argv[1])["model"], Bpe(), Path(sys.argv[2]))
