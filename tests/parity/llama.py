"""Evaluates GGUF files with llama.cpp, through the PyPI package llama-cpp-python, for `cargo xtask parity`.

Reads lines from standard input, each a JSON object, and answers each with one line of JSON. Two threads, no flash attention.

{"model": path, "prompts": [[token, ...], ...], "cache": type, "out": path} writes to `out`, for each prompt in order, the logits
of all its positions as little-endian f32 [positions, vocabulary]. Batches of 512 rows; keys and values are kept as "f16",
llama.cpp's default, or as "f32".

{"model": path, "texts": [text, ...], "context": tokens, "out": path} writes to `out` the vector of each text, of length 1, as
little-endian f32 [texts, elements]. Each text is one batch. The answer has the tokens of each text.
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


def embed(job):
    context = job["context"]
    llama = Llama(
        job["model"],
        n_ctx=context,
        n_batch=context,
        n_ubatch=context,
        n_threads=2,
        embedding=True,
        flash_attn=False,
        verbose=False,
    )
    tokens = []
    with open(job["out"], "wb") as out:
        for text in job["texts"]:
            vector, count = llama.embed(text, normalize=True, truncate=False, return_count=True)
            out.write(numpy.asarray(vector, dtype="<f4").tobytes())
            tokens.append(count)
    return {"tokens": tokens}


for line in sys.stdin:
    job = json.loads(line)
    print(json.dumps(embed(job) if "texts" in job else evaluate(job)), flush=True)
