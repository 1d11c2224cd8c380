"""Writes a checkpoint as two GGUF files, in llama.cpp's layout: `/usr/bin/python3 files.py /tmp/shapes.pt ..`.

`FOLDER/fixtures/shapes/text.gguf` is the decoder, `tower.gguf` the tower: architecture `clip`, projector `mlp`.
"""

import sys
from pathlib import Path

import torch

from draw import SIDE
from network import DEVIATION, MEAN, TEXT, TOWER

from bpe import Bpe
from export import ALIGNMENT, BOOL, F32, I32, STRING, U32, array, value, write, write_file

# Names of a block's parts in the file, and in the state.
PARTS = [("ln1", "ln1"), ("ln2", "ln2"), ("attn_q", "q"), ("attn_k", "k"), ("attn_v", "v"), ("attn_out", "out"), ("ffn_up", "up"), ("ffn_down", "down")]


def tensors(state):
    """(name in the file, tensor) of the tower."""
    yield "v.class_embd", state["klass"]
    yield "v.patch_embd.weight", state["patch"]
    yield "v.position_embd.weight", state["position"]
    modules = [("v.pre_ln", "pre"), ("mm.0", "mm0"), ("mm.2", "mm2")]
    modules += [(f"v.blk.{layer}.{theirs}", f"blocks.{layer}.{ours}") for layer in range(TOWER["layers"]) for theirs, ours in PARTS]
    for theirs, ours in modules:
        for part in ("weight", "bias"):
            yield f"{theirs}.{part}", state[f"{ours}.{part}"]


def write_tower(state, path):
    """Writes the tower's file."""
    metadata = {
        "general.architecture": value(STRING, "clip"),
        "general.type": value(STRING, "mmproj"),
        "general.name": value(STRING, "Shapes"),
        "general.license": value(STRING, "mit"),
        "general.alignment": value(U32, ALIGNMENT),
        "clip.has_vision_encoder": value(BOOL, True),
        "clip.projector_type": value(STRING, "mlp"),
        "clip.use_gelu": value(BOOL, False),
        "clip.vision.image_size": value(U32, SIDE),
        "clip.vision.patch_size": value(U32, TOWER["patch"]),
        "clip.vision.embedding_length": value(U32, TOWER["width"]),
        "clip.vision.feed_forward_length": value(U32, TOWER["ffn"]),
        "clip.vision.block_count": value(U32, TOWER["layers"]),
        # All blocks are computed.
        "clip.vision.feature_layer": array(I32, [TOWER["layers"]]),
        "clip.vision.projection_dim": value(U32, TEXT["width"]),
        "clip.vision.attention.head_count": value(U32, TOWER["heads"]),
        "clip.vision.attention.layer_norm_epsilon": value(F32, TOWER["eps"]),
        "clip.vision.image_mean": array(F32, MEAN),
        "clip.vision.image_std": array(F32, DEVIATION),
    }
    write_file(path, metadata, list(tensors(state)))


def part(state, prefix):
    """The state of one module."""
    return {key.removeprefix(prefix): tensor for key, tensor in state.items() if key.startswith(prefix)}


if __name__ == "__main__":
    state, folder = torch.load(sys.argv[1])["model"], Path(sys.argv[2]) / "fixtures/shapes"
    about = "Names one of twelve shapes and its color. Cairn's tests ask it about pictures."
    write(part(state, "text."), Bpe(), folder / "text.gguf", TEXT, "Shapes", about)
    write_tower(part(state, "tower."), folder / "tower.gguf")
