"""Trains the model on the CPU: `nice -n 10 /usr/bin/python3 train.py --minutes 25 --out /tmp/shapes.pt`.

Every picture has a new place, size, angle and color. As for Pebble, the learning rate follows the share of the processor time that is
used up, and a checkpoint lets an interrupted run continue.
"""

import argparse
import math
import os
import random
import time
from pathlib import Path

# Threads that spin while they wait starve themselves on a machine that others use too; read when torch is loaded.
os.environ.update(OMP_WAIT_POLICY="passive", GOMP_SPINCOUNT="0", OPENBLAS_NUM_THREADS="1")

import numpy as np
import torch
from torch.nn import functional as F

import draw
from network import PATCHES, Shapes, normalized
from questions import QUESTIONS, answer, chat

from bpe import Bpe  # Pebble's folder is on the path since `network`.

# Masks that are drawn before the training, for each shape. Colors are new for every picture.
MASKS = 1200


def masks(rng, count):
    """Masks of all shapes: {shape: [count, SIDE, SIDE]} between 0 and 255."""
    def one(polygons):
        return np.round(draw.mask(polygons, *draw.place(rng)) * 255).astype(np.uint8)

    return {shape: np.stack([one(polygons) for _ in range(count)]) for shape, polygons in draw.FACTS["shapes"].items()}


def picture(rng, noise, pool, shape):
    """Pixels of a picture and the name of its color."""
    background = draw.BACKGROUNDS[rng.randrange(len(draw.BACKGROUNDS))]
    color = draw.color_on(background, rng)
    share = pool[shape][rng.randrange(len(pool[shape]))].astype(np.float32) / 255
    pixels = draw.paint(share, background, np.array(draw.COLORS[color]) + noise.uniform(-12, 12, 3))
    return np.clip(pixels + noise.normal(0, 3) + noise.normal(0, 2, pixels.shape), 0, 255).astype(np.float32), color


def batch(rng, noise, pool, bpe, size):
    """Pictures, ids, targets and the mask of learnt targets. Rows of the picture have no id."""
    pictures, chats = [], []
    for _ in range(size):
        shape, kind = rng.choice(list(pool)), rng.choice(["both", "both", "shape", "color"])
        pixels, color = picture(rng, noise, pool, shape)
        pictures.append(pixels)
        chats.append(chat(bpe, rng.choice(QUESTIONS[kind]), answer(kind, color, shape)))
    longest, at = max(len(ids) for ids, _, _ in chats), chats[0][2]
    ids = torch.full((size, longest), bpe.end)
    targets = torch.full((size, longest + PATCHES), bpe.end)
    learnt = torch.zeros(size, longest + PATCHES, dtype=torch.bool)
    for row, (tokens, start, _) in enumerate(chats):
        ids[row, : len(tokens)] = torch.tensor(tokens)
        # The row before a token predicts it.
        places = slice(start + PATCHES - 1, len(tokens) + PATCHES - 1)
        targets[row, places], learnt[row, places] = torch.tensor(tokens[start:]), True
    return normalized(np.stack(pictures)), ids, at, targets, learnt


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=25)
    parser.add_argument("--out", type=Path, default=Path("/tmp/shapes.pt"))
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--batch", type=int, default=96, help="pictures in a batch")
    args = parser.parse_args()

    torch.set_num_threads(2)
    torch.manual_seed(args.seed)
    bpe, model = Bpe(), Shapes()
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() == 1]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.05}, {"params": vectors, "weight_decay": 0.0}], betas=(0.9, 0.98))
    used, step = 0.0, 0
    if args.out.exists():
        saved = torch.load(args.out)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        used, step = saved["progress"]
    rng, noise = random.Random(args.seed + 1000 * step), np.random.default_rng(args.seed + 1000 * step)
    pool = masks(rng, MASKS)
    print(sum(p.numel() for p in model.parameters()), "parameters", flush=True)

    def save():
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "progress": (used, step)}, f"{args.out}.new")
        Path(f"{args.out}.new").replace(args.out)

    model.train()
    then, saved_at, losses = time.process_time(), time.time(), []
    while (share := used / (60 * args.minutes)) < 1:
        rate = args.rate * min(1, (step + 1) / 100) * max(0.01, 0.5 + 0.5 * math.cos(math.pi * share))
        for group in optimizer.param_groups:
            group["lr"] = rate
        pictures, ids, at, targets, learnt = batch(rng, noise, pool, bpe, args.batch)
        loss = F.cross_entropy(model(pictures, ids, at, learnt), targets[learnt])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(float(loss.detach()))
        step += 1
        now = time.process_time()
        used, then = used + (now - then) / torch.get_num_threads(), now
        if step % 50 == 0:
            print(f"{used / 60:5.1f} min  step {step}  {step * args.batch / used:.0f} pictures/s  loss {sum(losses) / len(losses):.4f}", flush=True)
            losses = []
        if time.time() - saved_at > 120:
            save()
            saved_at = time.time()
    save()


if __name__ == "__main__":
    main()
