"""Evaluates GGUF files with llama.cpp, through the PyPI package llama-cpp-python, for `cargo xtask parity`.

Reads lines from standard input, each a JSON object {"model": path, "prompts": [[token, ...], ...], "out": path}, and writes to `out`, for each
prompt in order, the logits of all its positions as little-endian f32 [positions, vocabulary]. Answers each line with one
line of JSON. Batches of 512 rows, f16 keys and values, two threads: llama.cpp's own defaults on this kind of machine.
"""

import json
import sys

import numpy
from llama_cpp import Llama


def evaluate(job):
    longest = max(len(prompt) for prompt in job["prompts"])
    llama = Llama(job["model"], n_ctx=longest + 8, n_batch=512, n_threads=2, logits_all=True, verbose=False)
    with open(job["out"], "wb") as out:
        for prompt in job["prompts"]:
            llama.reset()
            llama.eval(prompt)
            out.write(numpy.asarray(llama.scores[: len(prompt)], dtype="<f4").tobytes())
    return {"vocabulary": llama.n_vocab()}


for line in sys.stdin:
    print(json.dumps(evaluate(json.loads(line))), flush=True)
