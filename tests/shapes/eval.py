"""Asks a checkpoint about new pictures: `/usr/bin/python3 eval.py /tmp/shapes.pt [--count 1200]`."""

import argparse
import random
from collections import Counter

import numpy as np
import torch

import draw
from network import Shapes, normalized
from questions import QUESTIONS, answer, chat
from train import masks, picture

from bpe import Bpe


@torch.no_grad()
def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("checkpoint")
    parser.add_argument("--count", type=int, default=1200)
    args = parser.parse_args()
    bpe, model = Bpe(), Shapes()
    model.load_state_dict(torch.load(args.checkpoint)["model"])
    model.eval()
    rng, noise = random.Random(1), np.random.default_rng(1)
    pool, wrong = masks(rng, 30), Counter()
    for nth in range(args.count):
        shape, kind = list(pool)[nth % len(pool)], rng.choice(list(QUESTIONS))
        pixels, color = picture(rng, noise, pool, shape)
        ids, start, at = chat(bpe, rng.choice(QUESTIONS[kind]))
        pictures = normalized(pixels[None])
        while len(ids) < start + 24:
            token = int(model(pictures, torch.tensor([ids]), at)[0, -1].argmax())
            if token == bpe.im_end:
                break
            ids.append(token)
        given = bpe.decode(ids[start:])
        if given != answer(kind, color, shape):
            wrong[f"{color} {shape}: {given}"] += 1
    print(f"{args.count - wrong.total()} of {args.count} answers are right", *wrong.most_common(20), sep="\n")


if __name__ == "__main__":
    main()
