"""A tower of LLaVA's kind in front of Pebble's decoder: CLIP's transformer without its last norm, and an MLP. A picture becomes one
row for each patch."""

import sys
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

from draw import SIDE

sys.path.append(str(Path(__file__).parents[2] / "src-tauri/crates/app/pebble"))
from model import Pebble  # noqa: E402

TEXT = {"vocab": 2304, "width": 128, "layers": 3, "heads": 4, "kv_heads": 2, "ffn": 256, "context": 512, "rope_base": 10000.0, "eps": 1e-5}
TOWER = {"width": 128, "layers": 3, "heads": 4, "ffn": 256, "patch": 8, "eps": 1e-5}
PATCHES = (SIDE // TOWER["patch"]) ** 2
# CLIP's mean and deviation of the colors, between 0 and 1.
MEAN, DEVIATION = [0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711]


class Linear(nn.Module):
    """A matrix and a bias; multiplies in bf16 while training."""

    def __init__(self, inner, outer):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outer, inner) * inner**-0.5)
        self.bias = nn.Parameter(torch.zeros(outer))

    def forward(self, x):
        if self.training:
            return F.linear(x.bfloat16(), self.weight.bfloat16()).float() + self.bias
        return F.linear(x, self.weight, self.bias)


class Block(nn.Module):
    """Attention to all patches and an MLP of x * sigmoid(1.702 x)."""

    def __init__(self, s):
        super().__init__()
        self.heads, width = s["heads"], s["width"]
        self.ln1, self.ln2 = nn.LayerNorm(width, s["eps"]), nn.LayerNorm(width, s["eps"])
        self.q, self.k, self.v, self.out = (Linear(width, width) for _ in range(4))
        self.up, self.down = Linear(width, s["ffn"]), Linear(s["ffn"], width)

    def forward(self, x):
        pictures, rows, width = x.shape
        split = lambda y: y.view(pictures, rows, self.heads, -1).transpose(1, 2)
        n = self.ln1(x)
        q, k, v = split(self.q(n)), split(self.k(n)), split(self.v(n))
        weights = torch.softmax(q @ k.transpose(-1, -2) * (width // self.heads) ** -0.5, -1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(pictures, rows, width))
        up = self.up(self.ln2(x))
        return x + self.down(up * torch.sigmoid(1.702 * up))


class Tower(nn.Module):
    """Pictures [pictures, 3, SIDE, SIDE] -> rows [pictures, PATCHES, width of the text]."""

    def __init__(self, s=TOWER, output=TEXT["width"]):
        super().__init__()
        self.patch = nn.Parameter(torch.randn(s["width"], 3, s["patch"], s["patch"]) * 0.05)
        self.klass = nn.Parameter(torch.randn(s["width"]) * 0.02)
        self.position = nn.Parameter(torch.randn(PATCHES + 1, s["width"]) * 0.02)
        self.pre = nn.LayerNorm(s["width"], s["eps"])
        self.blocks = nn.ModuleList(Block(s) for _ in range(s["layers"]))
        self.mm0, self.mm2 = Linear(s["width"], output), Linear(output, output)

    def forward(self, pictures):
        patches = F.conv2d(pictures, self.patch, stride=self.patch.shape[-1]).flatten(2).transpose(1, 2)
        first = self.klass.expand(len(pictures), 1, -1)
        x = self.pre(torch.cat([first, patches], 1) + self.position)
        for block in self.blocks:
            x = block(x)
        return self.mm2(F.gelu(self.mm0(x[:, 1:]), approximate="tanh"))


class Shapes(nn.Module):
    """Pictures and token ids [chats, tokens] -> logits. `at` is the place of the picture's first row in every chat."""

    def __init__(self):
        super().__init__()
        self.tower, self.text = Tower(), Pebble(TEXT)

    def forward(self, pictures, ids, at, wanted=None):
        rows = self.text.embedding[ids]
        rows = torch.cat([rows[:, :at], self.tower(pictures), rows[:, at:]], 1)
        return self.text.decode(rows, wanted)


def normalized(pixels):
    """Pixels [..., SIDE, SIDE, 3] between 0 and 255 as the tower's input [..., 3, SIDE, SIDE]."""
    scaled = (torch.as_tensor(pixels) / 255 - torch.tensor(MEAN)) / torch.tensor(DEVIATION)
    return scaled.movedim(-1, -3)
