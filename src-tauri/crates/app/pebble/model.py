"""The Llama architecture in a page of torch, with llama.cpp's conventions: RoPE turns the pairs (2i, 2i + 1), the
output matrix is the embedding."""

import torch
from torch import nn
from torch.nn import functional as F

SHAPE = {"vocab": 2304, "width": 256, "layers": 4, "heads": 8, "kv_heads": 2, "ffn": 512, "context": 2048, "rope_base": 10000.0, "eps": 1e-5}


class Linear(nn.Module):
    """A matrix that multiplies in bf16 while training, where the CPU does that several times as fast as f32."""

    def __init__(self, inner, outer):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outer, inner) * 0.02)

    def forward(self, x):  # [..., inner] -> [..., outer]
        if self.training:
            return F.linear(x.bfloat16(), self.weight.bfloat16()).float()
        return F.linear(x, self.weight)


class Norm(nn.Module):
    """RMSNorm."""

    def __init__(self, width, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(width)), eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


def rotate(x, cos, sin):
    """RoPE of x [chats, heads, tokens, head_dim] by angles [tokens, head_dim / 2]."""
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)


class Block(nn.Module):
    """Attention and SwiGLU, each behind a norm."""

    def __init__(self, s):
        super().__init__()
        self.heads, self.kv_heads, self.dim = s["heads"], s["kv_heads"], s["width"] // s["heads"]
        self.attn_norm, self.ffn_norm = Norm(s["width"], s["eps"]), Norm(s["width"], s["eps"])
        self.q, self.k = Linear(s["width"], s["width"]), Linear(s["width"], self.kv_heads * self.dim)
        self.v, self.o = Linear(s["width"], self.kv_heads * self.dim), Linear(s["width"], s["width"])
        self.gate, self.up, self.down = Linear(s["width"], s["ffn"]), Linear(s["width"], s["ffn"]), Linear(s["ffn"], s["width"])

    def forward(self, x, cos, sin, mask):
        chats, tokens, width = x.shape
        split = lambda y, heads: y.view(chats, tokens, heads, self.dim).transpose(1, 2)
        n = self.attn_norm(x)
        q = rotate(split(self.q(n), self.heads), cos, sin) * self.dim**-0.5
        k = rotate(split(self.k(n), self.kv_heads), cos, sin)
        v = split(self.v(n), self.kv_heads)
        group = self.heads // self.kv_heads
        # Queries of one group stand in one matrix, so that keys need no copies: [chats, kv_heads, group * tokens, dim].
        q = q.reshape(chats, self.kv_heads, group * tokens, self.dim)
        if self.training:
            q, k, v = q.bfloat16(), k.bfloat16(), v.bfloat16()
        scores = (q @ k.transpose(-1, -2)).view(chats, self.heads, tokens, tokens).float() + mask
        weights = torch.softmax(scores, -1).view(chats, self.kv_heads, group * tokens, tokens)
        mixed = (weights.to(v.dtype) @ v).float()
        mixed = mixed.view(chats, self.heads, tokens, self.dim).transpose(1, 2).reshape(chats, tokens, width)
        x = x + self.o(mixed)
        n = self.ffn_norm(x)
        return x + self.down(F.silu(self.gate(n)) * self.up(n))


class Pebble(nn.Module):
    """Token ids [chats, tokens] -> logits."""

    def __init__(self, s=SHAPE):
        super().__init__()
        self.shape = s
        self.embedding = nn.Parameter(torch.randn(s["vocab"], s["width"]) * 0.02)
        self.blocks = nn.ModuleList(Block(s) for _ in range(s["layers"]))
        self.norm = Norm(s["width"], s["eps"])
        for block in self.blocks:
            for matrix in (block.o, block.down):
                matrix.weight.data /= (2 * s["layers"]) ** 0.5

    def forward(self, ids, wanted=None):
        """Logits of every place, or only of the places `wanted` [chats, tokens]."""
        return self.decode(self.embedding[ids], wanted)

    def decode(self, x, wanted=None):
        """The same for rows [chats, tokens, width] in place of the embeddings of ids."""
        tokens, dim = x.shape[1], self.shape["width"] // self.shape["heads"]
        frequency = self.shape["rope_base"] ** (-torch.arange(0, dim, 2).float() / dim)
        angle = torch.arange(tokens).float()[:, None] * frequency
        mask = torch.full((tokens, tokens), float("-inf")).triu(1)
        for block in self.blocks:
            x = block(x, angle.cos(), angle.sin(), mask)
        x = self.norm(x if wanted is None else x[wanted])
        if self.training:
            return F.linear(x.bfloat16(), self.embedding.bfloat16()).float()
        return x @ self.embedding.t()


@torch.no_grad()
def generate(model, ids, stop, limit=160):
    """The likeliest continuation, without `stop`."""
    ids, start = list(ids), len(ids)
    model.eval()
    while len(ids) - start < limit:
        token = int(model(torch.tensor([ids]))[0, -1].argmax())
        if token == stop:
            break
        ids.append(token)
    return ids[start:]
