"""Quantises GGUF files with llama.cpp, through the PyPI package llama-cpp-python, for `cargo xtask quantise`.

Reads lines from standard input, each a JSON object {"model": path, "file_type": number, "threads": number, "out": path}, and
answers each with one line of JSON: whether it worked, and the seconds that it took.
"""

import ctypes
import json
import sys
import time

import llama_cpp


@llama_cpp.llama_log_callback
def silence(_level, _text, _data):
    pass


def quantise(job):
    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype, params.nthread = job["file_type"], job["threads"]
    started = time.perf_counter()
    failed = llama_cpp.llama_model_quantize(job["model"].encode(), job["out"].encode(), ctypes.byref(params))
    return {"done": failed == 0, "seconds": time.perf_counter() - started}


llama_cpp.llama_log_set(silence, ctypes.c_void_p())
for line in sys.stdin:
    print(json.dumps(quantise(json.loads(line))), flush=True)
