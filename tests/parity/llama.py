"""Evaluates GGUF files with llama.cpp, through the PyPI package llama-cpp-python, for `cargo xtask parity`.

Reads lines from standard input, each a JSON object {"model": path, "prompts": [[token, ...], ...], "cache": type, "out": path},
and writes to `out`, for each prompt in order, the logits of all its positions as little-endian f32 [positions, vocabulary].
Answers each line with one line of JSON. Batches of 512 rows, two threads, no flash attention; keys and values are kept as
"f16", llama.cpp's default, or as "f32".
"""

import json
import sys

import numpy
from llama_cpp import GGML_TYPE_F16, GGML_TYPE_F32, Llama

CACHE_TYPES = {"f16": GGML_TYPE_F16, "f32": GGML_TYPE_F32}


def evaluate(job):
    longest = max(len(prompt) for prompt in job["prompts"])
    cache = CACHE_TYPES[job["cache"]]
    llama = Llama(
        job["model"],
        n_ctx=longest + 8,
        n_batch=512,
        n_threads=2,
        logits_all=True,
        flash_attn=False,
        swa_full=False,
        type_k=cache,
        type_v=cache,
        verbose=False,
    )
    with open(job["out"], "wb") as out:
        for prompt in job["prompts"]:
            llama.reset()
            llama.eval(prompt)
            out.write(numpy.asarray(llama.scores[: len(prompt)], dtype="<f4").tobytes())
    return {"vocabulary": llama.n_vocab()}


for line in sys.stdin:
    print(json.dumps(evaluate(json.loads(line))), flush=True)
