#!/usr/bin/env python3
"""Holds the example `ids` against llama.cpp on random and hostile texts, for every vocabulary given.

    differential.py IDS COUNT SEED FILE.gguf...      (needs llama-cpp-python; IDS is the built example)

Texts are drawn by kind (`texts.py`), so that a difference says what it is about. Every text is encoded as plain text, with
special tokens read, and with BOS and EOS added. Prints one row for each vocabulary and kind with differences, and a few of those.
"""

import ctypes
import json
import random
import subprocess
import sys

import llama_cpp

from texts import KINDS


class Peer:
    def __init__(self, path):
        params = llama_cpp.llama_model_default_params()
        params.vocab_only = True
        self.model = llama_cpp.llama_model_load_from_file(path.encode(), params)
        if not self.model:
            raise RuntimeError("llama.cpp refuses it")
        self.vocab = llama_cpp.llama_model_get_vocab(self.model)
        self.buffer = (llama_cpp.llama_token * 100_000)()

    def ids(self, text, add, parse):
        data = text.encode("utf-8")
        count = llama_cpp.llama_tokenize(self.vocab, data, len(data), self.buffer, len(self.buffer), add, parse)
        return list(self.buffer[:count])

    def specials(self):
        texts = []
        for id in range(llama_cpp.llama_vocab_n_tokens(self.vocab)):
            # Unknown, control and user-defined.
            if llama_cpp.llama_vocab_get_attr(self.vocab, id) & (1 | 8 | 16):
                texts.append(llama_cpp.llama_vocab_get_text(self.vocab, id).decode("utf-8", "replace"))
        return [text for text in texts if text][:400]


def main():
    ids, count, seed, *paths = sys.argv[1:]
    silent = llama_cpp.llama_log_callback(lambda level, text, data: None)
    llama_cpp.llama_log_set(silent, ctypes.c_void_p(0))
    for path in paths:
        name = path.rsplit("/", 1)[-1]
        try:
            peer = Peer(path)
        except Exception as error:
            print(f"{name:34} not loaded by llama.cpp: {error}")
            continue
        chance = random.Random(int(seed))
        specials = peer.specials()
        kinds = list(KINDS)
        texts = [(kind, KINDS[kind](chance, specials)) for kind in kinds for _ in range(int(count) // len(kinds))]
        lines = "".join(json.dumps(text) + "\n" for _, text in texts)
        ours = subprocess.run([ids, path], input=lines, capture_output=True, text=True)
        if ours.returncode:
            print(f"{name:34} refused: {ours.stderr.strip()}")
            continue
        different = {}
        for (kind, text), line in zip(texts, ours.stdout.split("\n")):
            plain, parsed, added, _ = json.loads(line)
            modes = (("plain", plain, False, False), ("parsed", parsed, False, True), ("added", added, True, True))
            for mode, got, add, parse in modes:
                wanted = peer.ids(text, add, parse)
                if got != wanted:
                    different.setdefault((kind, mode), []).append((text, got, wanted))
        print(f"{name:34} {len(texts)} texts, 3 ways each: {sum(map(len, different.values()))} differences", flush=True)
        for (kind, mode), found in different.items():
            print(f"    {kind:9} {mode:7} {len(found)}")
            for text, got, wanted in sorted(found, key=lambda one: len(one[0]))[:2]:
                print(f"        {text[:60]!r}\n            ours   {got[:16]}\n            wanted {wanted[:16]}")


if __name__ == "__main__":
    main()
