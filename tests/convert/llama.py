"""Converts checkpoints with llama.cpp's own converter, for `cargo xtask convert`.

    llama.py SOURCE

SOURCE is a folder with the source of llama.cpp. Reads lines from standard input, each a JSON object {"folder": path, "type":
name, "pre": name, "tower": flag, "out": path}, and answers each with one line of JSON: whether it worked. With "tower", it
converts the vision tower of a checkpoint, otherwise its text part.

The converter recognises pre-tokenizers by a hash of the ids of a text, which vocabularies of tests do not have: the name is
given instead. Nor do they have the tokens that the classes of GLM look up, so that the common reader of vocabularies is used.
"""

import json
import logging
import pathlib
import sys
import traceback

source = pathlib.Path(sys.argv[1])
sys.path[:0] = [str(source), str(source / "gguf-py")]

import gguf  # noqa: E402
import torch  # noqa: E402
from conversion import get_model_class  # noqa: E402
from conversion.base import ModelBase, ModelType, TextModel, get_model_architecture  # noqa: E402

TYPES = {
    "F32": gguf.LlamaFileType.ALL_F32,
    "F16": gguf.LlamaFileType.MOSTLY_F16,
    "BF16": gguf.LlamaFileType.MOSTLY_BF16,
    "Q8_0": gguf.LlamaFileType.MOSTLY_Q8_0,
}


def convert(job):
    folder, out = pathlib.Path(job["folder"]), pathlib.Path(job["out"])
    TextModel.get_vocab_base_pre = lambda _self, _tokenizer: job["pre"]
    config = ModelBase.load_hparams(folder, False)
    kind = ModelType.MMPROJ if job["tower"] else ModelType.TEXT
    model = get_model_class(get_model_architecture(config, kind), mmproj=job["tower"])
    # Layers that predict further tokens are left out.
    model.no_mtp = True
    if model.__module__ == "conversion.glm":
        model.set_vocab = TextModel._set_vocab_gpt2
    with torch.inference_mode():
        # Matrices behind the pooling of embedding models are part of the file.
        model(folder, TYPES[job["type"]], out, sentence_transformers_dense_modules=True).write()
    return {"done": True}


logging.disable(logging.WARNING)
# Libraries print progress to the standard output, which has the answers.
answers, sys.stdout = sys.stdout, sys.stderr
for line in sys.stdin:
    try:
        answer = convert(json.loads(line))
    except Exception:
        answer = {"done": False, "error": traceback.format_exc()}
    print(json.dumps(answer), file=answers, flush=True)
