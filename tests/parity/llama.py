"""Evaluates GGUF files with llama.cpp, through the PyPI package llama-cpp-python, for `cargo xtask parity`.

Reads lines from standard input, each a JSON object, and answers each with one line of JSON. Two threads, no flash attention.

{"model": path, "prompts": [[token, ...], ...], "cache": type, "out": path} writes to `out`, for each prompt in order, the logits
of all its positions as little-endian f32 [positions, vocabulary]. Batches of 512 rows; keys and values are kept as "f16",
llama.cpp's default, or as "f32". With "inputs": [[token, ...], ...], the encoder of the model reads the input of each prompt first, and
the prompt is what its decoder computes.

{"model": path, "texts": [text, ...], "context": tokens, "out": path} writes to `out` the vector of each text, of length 1, as
little-endian f32 [texts, elements]. Each text is one batch. The answer has the tokens of each text.
"""

import json
import sys

import llama_cpp
import numpy
from llama_cpp import GGML_TYPE_F16, GGML_TYPE_F32, Llama

CACHE_TYPES = {"f16": GGML_TYPE_F16, "f32": GGML_TYPE_F32}


def run(function, context, tokens):
    """Runs all tokens of a sequence as one batch, each with its logits."""
    batch = llama_cpp.llama_batch_init(len(tokens), 0, 1)
    batch.n_tokens = len(tokens)
    for at, token in enumerate(tokens):
        batch.token[at] = token
        batch.pos[at] = at
        batch.n_seq_id[at] = 1
        batch.seq_id[at][0] = 0
        batch.logits[at] = 1
    status = function(context, batch)
    llama_cpp.llama_batch_free(batch)
    if status != 0:
        raise RuntimeError(f"{function.__name__} returned {status}")


def answer(llama, inputs, prompts, out):
    context = llama.ctx
    for tokens, prompt in zip(inputs, prompts):
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(context), True)
        run(llama_cpp.llama_encode, context, tokens)
        run(llama_cpp.llama_decode, context, prompt)
        logits = llama_cpp.llama_get_logits(context)
        out.write(numpy.ctypeslib.as_array(logits, (len(prompt), llama.n_vocab())).astype("<f4").tobytes())


def evaluate(job):
    longest = max(len(prompt) for prompt in job["prompts"])
    # An encoder reads its whole input in one batch.
    batch = longest if "inputs" in job else 512
    cache = CACHE_TYPES[job["cache"]]
    llama = Llama(
        job["model"],
        n_ctx=longest + 8,
        n_batch=batch,
        n_ubatch=batch,
        n_threads=2,
        logits_all=True,
        flash_attn=False,
        swa_full=False,
        type_k=cache,
        type_v=cache,
        verbose=False,
    )
    with open(job["out"], "wb") as out:
        if "inputs" in job:
            answer(llama, job["inputs"], job["prompts"], out)
            return {"vocabulary": llama.n_vocab()}
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
