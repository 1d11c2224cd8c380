"""Trains Pebble on the CPU: `nice -n 10 /usr/bin/python3 train.py --minutes 45 --out /tmp/pebble.pt`.

Every chat is new, so nothing is seen twice. The learning rate follows the share of the time that is used up, and a
checkpoint lets an interrupted run go on.
"""

import argparse
import math
import random
import time
from pathlib import Path

import torch
from torch.nn import functional as F

from bpe import Bpe
from corpus import conversations
from model import SHAPE, Pebble


def batches(bpe, seed, tokens_per_batch, longest):
    """Batches (ids, targets, learn) of chats of like length, padded at the end."""
    source, rng = conversations(seed), random.Random(seed)
    while True:
        chats = []
        while len(chats) < 3000:
            ids, learn = bpe.chat(next(source))
            chats.append((ids[:longest], learn[:longest]))
        chats.sort(key=lambda chat: len(chat[0]))
        made, row = [], []
        for chat in chats:
            if row and (len(row) + 1) * len(chat[0]) > tokens_per_batch:
                made.append(row)
                row = []
            row.append(chat)
        rng.shuffle(made)
        for row in made:
            width = max(len(ids) for ids, _ in row) - 1
            ids = torch.full((len(row), width + 1), bpe.end)
            learn = torch.zeros(len(row), width + 1, dtype=torch.bool)
            for at, (i, l) in enumerate(row):
                ids[at, : len(i)], learn[at, : len(l)] = torch.tensor(i), torch.tensor(l)
            yield ids[:, :-1], ids[:, 1:], learn[:, 1:]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=45)
    parser.add_argument("--out", type=Path, default=Path("/tmp/pebble.pt"))
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--batch", type=int, default=3072, help="tokens in a batch")
    parser.add_argument("--drop", type=float, default=0.05)
    parser.add_argument("--start", type=Path, help="a checkpoint whose weights to begin with")
    args = parser.parse_args()

    torch.set_num_threads(2)
    torch.manual_seed(args.seed)
    bpe, model = Bpe(), Pebble()
    assert len(bpe.tokens) == SHAPE["vocab"]
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() == 1]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.05}, {"params": vectors, "weight_decay": 0.0}], betas=(0.9, 0.98))
    used, step, seen, learnt = 0.0, 0, 0, 0
    if args.start:
        model.load_state_dict(torch.load(args.start)["model"])
    if args.out.exists():
        saved = torch.load(args.out)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        used, step, seen, learnt = saved["progress"]
    print(sum(p.numel() for p in model.parameters()), "parameters", flush=True)

    def save():
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "progress": (used, step, seen, learnt)}, f"{args.out}.new")
        Path(f"{args.out}.new").replace(args.out)

    model.train()
    then, saved_at, losses = time.time(), time.time(), []
    for ids, targets, learn in batches(bpe, args.seed + 1000 * step, args.batch, 512):
        share = used / (60 * args.minutes)
        if share >= 1:
            break
        rate = args.rate * min(1, (step + 1) / 100) * max(0.02, 0.5 + 0.5 * math.cos(math.pi * share))
        for group in optimizer.param_groups:
            group["lr"] = rate
        loss = F.cross_entropy(model(ids, learn, args.drop), targets[learn])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(float(loss.detach()))
        step, seen, learnt = step + 1, seen + ids.numel(), learnt + int(learn.sum())
        now = time.time()
        used, then = used + now - then, now
        if step % 50 == 0:
            print(f"{used / 60:5.1f} min  step {step}  {seen / 1e6:.2f}M tokens ({learnt / 1e6:.2f}M learnt)  {seen / used:.0f}/s  loss {sum(losses) / len(losses):.4f}", flush=True)
            losses = []
        if now - saved_at > 180:
            save()
            saved_at = now
    save()


if __name__ == "__main__":
    main()
