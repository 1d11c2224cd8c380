"""Asks a checkpoint or a GGUF of export.py the questions of test.json, greedily:
`/usr/bin/python3 eval.py /tmp/pebble.pt [--all]`.

Reported: questions about Cairn that name all required terms, other questions that are declined, and the cross check,
that is how often the terms of one question are found in the answer to another (at most 10 %, else the terms prove
nothing).
"""

import json
import sys
from pathlib import Path

import torch

from bpe import Bpe
from model import Pebble, generate
from weights import load

HERE = Path(__file__).parent


def passes(need, answer):
    """Whether `answer` holds one term of each list of `need`."""
    answer = answer.lower()
    return all(any(term.lower() in answer for term in any_of) for any_of in need)


def report(test, reply, everything=False):
    """Runs the test through `reply(question)`, prints the result, and says whether all three bars are met."""
    about, other = test["on_topic"], test["off_topic"]
    answers = [reply(case["q"]) for case in about]
    right = [passes(case["need"], answer) for case, answer in zip(about, answers)]
    declined = [(question, reply(question)) for question in other]
    honest = [any(phrase in answer.lower() for phrase in test["honest"]) for _, answer in declined]
    crossed = [passes(case["need"], answer) for i, case in enumerate(about) for j, answer in enumerate(answers) if i != j]
    for case, answer, ok in zip(about, answers, right):
        if everything or not ok:
            print("ok   " if ok else "WRONG", case["q"], "\n      ", answer)
    for (question, answer), ok in zip(declined, honest):
        if everything or not ok:
            print("ok   " if ok else "WRONG", question, "\n      ", answer)
    cross = sum(crossed) / len(crossed)
    print(f"right {sum(right)}/{len(right)}, honest {sum(honest)}/{len(honest)}, cross check {100 * cross:.1f} %")
    return sum(right) >= 0.75 * len(right) and sum(honest) >= 27 and cross <= 0.1


def main():
    torch.set_num_threads(1)
    bpe, model = Bpe(), Pebble()
    model.load_state_dict(load(sys.argv[1]))

    def reply(question):
        return bpe.decode(generate(model, bpe.chat([("user", question)], answer=True)[0], bpe.im_end))

    return 0 if report(json.loads((HERE / "test.json").read_text()), reply, "--all" in sys.argv) else 1


if __name__ == "__main__":
    sys.exit(main())
