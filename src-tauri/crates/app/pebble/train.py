"""Trains Pebble on the CPU: `nice -n 10 /usr/bin/python3 train.py --minutes 45 --out /tmp/pebble.pt`.

Every chat is new, so nothing is seen twice. The learning rate follows the share of the time that is used up, and a
checkpoint lets an interrupted run go on. The time is that of both cores: other programs and pauses do not count.
"""

import argparse
import math
import os
import random
import time
from pathlib import Path

# Threads that spin while they wait starve themselves on a machine that others use too; read when torch is loaded.
os.environ.update(OMP_WAIT_POLICY="passive", GOMP_SPINCOUNT="0", OPENBLAS_NUM_THREADS="1")

import torch
from torch.nn import functional as F

from bpe import Bpe
from corpus import conversations
from model import SHAPE, Pebble
from weights import load


def batches(bpe, seed, tokens_per_batch, longest, cut):
    """Batches (ids, targets, weights of what is learnt) of chats of like length, padded at the end."""
    source, rng = conversations(seed), random.Random(seed)
    while True:
        chats = []
        while len(chats) < 3000:
            ids, learn = bpe.chat(next(source))
            # The hard part is the choice of the answer, and it falls in its first words: most answers end after those.
            if rng.random() < cut:
                first = max(at for at in range(1, len(learn)) if learn[at] > learn[at - 1])
                longest_here = first + 12
            else:
                longest_here = longest
            chats.append((ids[:longest_here], learn[:longest_here]))
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
            learn = torch.zeros(len(row), width + 1)
            for at, (i, l) in enumerate(row):
                ids[at, : len(i)], learn[at, : len(l)] = torch.tensor(i), torch.tensor(l)
            yield ids[:, :-1], ids[:, 1:], learn[:, 1:]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=45)
    parser.add_argument("--out", type=Path, default=Path("/tmp/pebble.pt"))
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--batch", type=int, default=2048, help="tokens in a batch")
    parser.add_argument("--cut", type=float, default=0.72, help="share of chats whose last answer ends early")
    parser.add_argument("--start", type=Path, help="a checkpoint or a GGUF of export.py whose weights to begin with")
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
        model.load_state_dict(load(args.start))
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
    then, saved_at, losses = time.process_time(), time.time(), []
    for ids, targets, learn in batches(bpe, args.seed + 1000 * step, args.batch, 512, args.cut):
        share = used / (60 * args.minutes)
        if share >= 1:
            break
        rate = args.rate * min(1, (step + 1) / 60) * max(0.02, 0.5 + 0.5 * math.cos(math.pi * share))
        for group in optimizer.param_groups:
            group["lr"] = rate
        wanted, weight = learn > 0, learn[learn > 0]
        each = F.cross_entropy(model(ids, wanted), targets[wanted], reduction="none")
        loss = (each * weight).sum() / weight.sum()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(float(each.detach()[weight == 3].mean()))
        step, seen, learnt = step + 1, seen + ids.numel(), learnt + int(wanted.sum())
        now = time.process_time()
        used, then = used + (now - then) / torch.get_num_threads(), now
        if step % 25 == 0:
            print(f"{used / 60:5.1f} min  step {step}  {seen / 1e6:.2f}M tokens ({learnt / 1e6:.2f}M learnt)  {seen / used:.0f}/s  loss at answers' heads {sum(losses) / len(losses):.4f}", flush=True)
            losses = []
        if time.time() - saved_at > 180:
            save()
            saved_at = time.time()
    save()


if __name__ == "__main__":
    main()
