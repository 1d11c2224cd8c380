#!/usr/bin/env python3
"""Holds the example `ids` against `mistral-common`, whose package carries the vocabularies of Mistral's models.

    mistral.py IDS COUNT SEED FOLDER      (needs mistral-common, sentencepiece and gguf; IDS is the built example)

Each vocabulary is written into FOLDER as a GGUF file, from what the package says about its tokens, and plain texts are compared:
random ones drawn by kind as in `differential.py`, without the special tokens.
"""

import base64
import glob
import json
import os
import random
import subprocess
import sys

import gguf
import mistral_common
import sentencepiece
from mistral_common.tokens.tokenizers.tekken import Tekkenizer

from texts import KINDS

DATA = os.path.join(os.path.dirname(mistral_common.__file__), "data")
NORMAL, UNKNOWN, CONTROL, UNUSED, BYTE = 1, 2, 3, 5, 6


def alphabet():
    """The printable character of each byte in byte-level vocabularies."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(byte) if byte in printable else chr(next(others)) for byte in range(256)]


LETTERS = alphabet()


def spelled(data):
    return "".join(LETTERS[byte] for byte in data)


def write(path, model, tokens, types, **more):
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model(model)
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    for name, value in more.items():
        getattr(writer, f"add_{name}")(value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


def tekken(source, path):
    tokenizer = Tekkenizer.from_file(source)
    specials = tokenizer.num_special_tokens
    count = tokenizer.n_words - specials
    with open(source, encoding="utf-8") as file:
        data = [base64.b64decode(entry["token_bytes"]) for entry in json.load(file)["vocab"]][:count]
    ranks = {token: rank for rank, token in enumerate(data)}
    merges = []
    for token in data:
        halves = [(token[:at], token[at:]) for at in range(1, len(token))]
        known = [(ranks[one], ranks[other]) for one, other in halves if one in ranks and other in ranks]
        merges += [f"{spelled(data[one])} {spelled(data[other])}" for one, other in sorted(known)]
    # Partial characters and NUL can be spelled as well; names of special tokens only have to differ.
    tokens = [f"<special_{id}>" for id in range(specials)] + [spelled(token) for token in data]
    write(path, "gpt2", tokens, [CONTROL] * specials + [NORMAL] * count, tokenizer_pre="tekken", token_merges=merges)
    return lambda text: tokenizer.encode(text, bos=False, eos=False)


def sentence_piece(source, path):
    model = sentencepiece.SentencePieceProcessor(source)
    kinds = [(model.is_unknown, UNKNOWN), (model.is_control, CONTROL), (model.is_unused, UNUSED), (model.is_byte, BYTE)]
    types = [next((kind for test, kind in kinds if test(id)), NORMAL) for id in range(len(model))]
    tokens = [model.id_to_piece(id) for id in range(len(model))]
    scores = [model.get_score(id) for id in range(len(model))]
    write(path, "llama", tokens, types, token_scores=scores, add_space_prefix=True)
    return model.encode


def main():
    ids, count, seed, folder = sys.argv[1:]
    os.makedirs(folder, exist_ok=True)
    for source in sorted(glob.glob(f"{DATA}/*.model.*") + glob.glob(f"{DATA}/tekken*.json")):
        name = os.path.basename(source)
        path = os.path.join(folder, name + ".gguf")
        encode = (tekken if name.startswith("tekken") else sentence_piece)(source, path)
        chance = random.Random(int(seed))
        kinds = [kind for kind in KINDS if kind != "special"]
        texts = [(kind, KINDS[kind](chance, [])) for kind in kinds for _ in range(int(count) // len(kinds))]
        lines = "".join(json.dumps(text) + "\n" for _, text in texts)
        ours = subprocess.run([ids, path], input=lines, capture_output=True, text=True)
        if ours.returncode:
            print(f"{name:46} refused: {ours.stderr.strip()}")
            continue
        different = {}
        for (kind, text), line in zip(texts, ours.stdout.split("\n")):
            got, wanted = json.loads(line)[0], encode(text)
            if got != wanted:
                different.setdefault(kind, []).append((text, got, wanted))
        print(f"{name:46} {len(texts)} texts: {sum(map(len, different.values()))} differences", flush=True)
        for kind, found in different.items():
            print(f"    {kind:9} {len(found)}")
            for text, got, wanted in sorted(found, key=lambda one: len(one[0]))[:3]:
                print(f"        {text[:60]!r}\n            ours   {got[:16]}\n            wanted {wanted[:16]}")


if __name__ == "__main__":
    main()
