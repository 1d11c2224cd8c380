"""Evaluates prompts with pictures with llama.cpp's library for vision towers, through the PyPI package llama-cpp-python, for
`cargo xtask parity`.

Reads lines from standard input, each a JSON object, and answers each with one line of JSON. Two threads, no flash attention, keys
and values in F32.

{"model": path, "tower": path, "before": [token, ...], "after": [token, ...], "width": pixels, "height": pixels, "rgb": path, "out":
path} writes to `out`, as little-endian f32, the rows of the picture [rows, elements], and the logits of the tokens after them
[tokens, vocabulary]. The answer has the number of rows, the elements of a row and the tokens of the vocabulary.
"""

import ctypes
import json
import sys

import llama_cpp
import numpy
from llama_cpp import mtmd_cpp as mtmd

ROWS = 1024


@llama_cpp.llama_log_callback
def silent(level, text, user_data):
    pass


llama_cpp.llama_log_set(silent, ctypes.c_void_p(0))
mtmd.mtmd_helper_log_set(silent, ctypes.c_void_p(0))


def decode(context, tokens, position, with_logits):
    batch = llama_cpp.llama_batch_init(len(tokens), 0, 1)
    batch.n_tokens = len(tokens)
    for at, token in enumerate(tokens):
        batch.token[at] = token
        batch.pos[at] = position + at
        batch.n_seq_id[at] = 1
        batch.seq_id[at][0] = 0
        batch.logits[at] = with_logits
    status = llama_cpp.llama_decode(context, batch)
    llama_cpp.llama_batch_free(batch)
    if status != 0:
        raise RuntimeError(f"llama_decode returns {status}")


def chunks_of(tower, job):
    pixels = open(job["rgb"], "rb").read()
    data = (ctypes.c_uint8 * len(pixels)).from_buffer_copy(pixels)
    bitmap = mtmd.mtmd_bitmap_init(job["width"], job["height"], data)
    chunks = mtmd.mtmd_input_chunks_init()
    marker = mtmd.mtmd_default_marker()
    text = mtmd.mtmd_input_text(marker, len(marker), False, True)
    bitmaps = (ctypes.c_void_p * 1)(bitmap)
    status = mtmd.mtmd_tokenize(tower, chunks, ctypes.byref(text), bitmaps, 1)
    if status != 0:
        raise RuntimeError(f"mtmd_tokenize returns {status}")
    every = [mtmd.mtmd_input_chunks_get(chunks, at) for at in range(mtmd.mtmd_input_chunks_size(chunks))]
    return [chunk for chunk in every if mtmd.mtmd_input_chunk_get_type(chunk) == mtmd.MTMD_INPUT_CHUNK_TYPE_IMAGE]


def evaluate(job):
    params = llama_cpp.llama_model_default_params()
    model = llama_cpp.llama_model_load_from_file(job["model"].encode(), params)
    params = llama_cpp.llama_context_default_params()
    params.n_ctx = params.n_batch = params.n_ubatch = ROWS
    params.n_threads = params.n_threads_batch = 2
    params.type_k = params.type_v = llama_cpp.GGML_TYPE_F32
    params.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
    params.swa_full = True
    context = llama_cpp.llama_init_from_model(model, params)
    params = mtmd.mtmd_context_params_default()
    params.use_gpu = params.print_timings = params.warmup = False
    params.n_threads = 2
    params.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
    tower = mtmd.mtmd_init_from_file(job["tower"].encode(), model, params)
    if not (model and context and tower):
        raise RuntimeError("a file cannot be loaded")
    chunks = chunks_of(tower, job)
    width = llama_cpp.llama_model_n_embd_inp(model)
    vocabulary = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(model))
    position = len(job["before"])
    decode(context, job["before"], 0, False)
    count = 0
    with open(job["out"], "wb") as out:
        for chunk in chunks:
            rows = mtmd.mtmd_input_chunk_get_n_tokens(chunk)
            if mtmd.mtmd_encode_chunk(tower, chunk) != 0:
                raise RuntimeError("mtmd_encode_chunk fails")
            found = numpy.ctypeslib.as_array(mtmd.mtmd_get_output_embd(tower), shape=(rows * width,))
            out.write(found.astype("<f4").tobytes())
            count += rows
        for chunk in chunks:
            end = llama_cpp.llama_pos(0)
            status = mtmd.mtmd_helper_eval_chunk_single(
                tower, context, chunk, position, 0, ROWS, False, ctypes.byref(end)
            )
            if status != 0:
                raise RuntimeError(f"mtmd_helper_eval_chunk_single returns {status}")
            position = end.value
        decode(context, job["after"], position, True)
        logits = llama_cpp.llama_get_logits(context)
        logits = numpy.ctypeslib.as_array(logits, shape=(len(job["after"]) * vocabulary,))
        out.write(logits.astype("<f4").tobytes())
    mtmd.mtmd_free(tower)
    llama_cpp.llama_free(context)
    llama_cpp.llama_model_free(model)
    return {"rows": count, "width": width, "vocabulary": vocabulary}


for line in sys.stdin:
    print(json.dumps(evaluate(json.loads(line))), flush=True)
