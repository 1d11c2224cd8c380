#!/usr/bin/env python3
"""Holds the example `ids` against llama.cpp on random and hostile texts, for every vocabulary given.

    differential.py IDS COUNT SEED FILE.gguf...      (needs llama-cpp-python; IDS is the built example)

Texts are drawn by kind, so that a difference says what it is about. Every text is encoded as plain text, with special tokens
read, and with BOS and EOS added. Prints one row for each vocabulary and kind with differences, and a few of those.
"""

import ctypes
import json
import random
import subprocess
import sys
import unicodedata

import llama_cpp

WORDS = (
    "the of and Hello WORLD it's they'LL we'Ve I'm don't O'Neill x2 3.14 1234567 don’t naïve café Straße ΑΒΓ αβγς привет ПРИВЕТ"
    " これは テスト です 漢字 测试文本 中文字符 한국어 시험 สวัสดี नमस्ते हिन्दी مرحبا العربية שלום ភាសាខ្មែរ İstanbul ſtraße Kelvin ﬁne ＦＵＬＬ ½ ② Ⅷ ٣٤٥ १२३"
    " fn main() { return 0; } if(x!=y) std::vector<int> a[i]++ // -> => == &&= #include <stdio.h> \\n %s {} [] ../../ http://a.b/?c=d&e"
).split(" ")
EMOJI = "😀 😂 🦙 👩‍👩‍👧‍👦 🏳️‍🌈 🇩🇪 👍🏽 ❤️ 🚀 (normal) 😶‍🌫️ ✅ 1️⃣".split(" ")
MARKS = [chr(c) for c in (*range(0x300, 0x33F), *range(0x591, 0x5A0), *range(0x64B, 0x653), 0x93C, 0x94D, 0x20DD, 0xFE0F, 0x200D)]
SPACES = [" "] * 12 + ["\n"] * 5 + ["\t"] * 3 + list("\r\v\f\x85\xa0\u1680\u2003\u2028\u2029\u202f\u205f\u3000") + ["\r\n", "  ", "    "]
CONTROLS = [chr(c) for c in (*range(1, 32), 0x7F, *range(0x80, 0xA0), 0xAD, 0x200B, 0x200E, 0x2060, 0xFEFF, 0xFFFD, 0xE000, 0xF8FF)]
ASSIGNED = [chr(c) for c in range(1, 0x30000) if unicodedata.category(chr(c)) not in ("Cn", "Cs", "Co")]
PLANES = [(0x20, 0x7F), (0x80, 0x250), (0x370, 0x530), (0x590, 0x700), (0x900, 0xE80), (0x1100, 0x1200), (0x3040, 0x3100), (0x4E00, 0x9FFF), (0xAC00, 0xD7A4), (0x1F300, 0x1FA00)]


def blend(chance, parts, least, most, joint=("", " ", " ", "  ", "\n")):
    return "".join(chance.choice(parts) + chance.choice(joint) for _ in range(chance.randint(least, most)))


def block(chance):
    first, last = chance.choice(PLANES)
    return "".join(chr(chance.randrange(first, last)) for _ in range(chance.randint(1, 6)))


KINDS = {
    "words": lambda c, s: blend(c, WORDS, 1, 30),
    "spaces": lambda c, s: blend(c, SPACES + ["a", "1", ".", "é"], 1, 25, ("",)),
    "marks": lambda c, s: blend(c, MARKS + ["e", "A", " ", "ا", "न", "漢", "1"], 1, 20, ("",)),
    "controls": lambda c, s: blend(c, CONTROLS + ["a", " ", "é", "漢"], 1, 20, ("",)),
    "emoji": lambda c, s: blend(c, EMOJI + ["a", " "], 1, 15),
    "numbers": lambda c, s: blend(c, list("0123456789") * 3 + list("½②Ⅷ٣१., a-+e"), 1, 30, ("",)),
    "quotes": lambda c, s: blend(c, ["'", "’", "s", "S", "ſ", "t", "T", "re", "RE", "ve", "ll", "Ll", "m", "d", "D", " ", "K", "a"], 1, 15, ("",)),
    "blocks": lambda c, s: blend(c, [block(c) for _ in range(6)], 1, 12),
    "assigned": lambda c, s: blend(c, ASSIGNED, 1, 20, ("", "", " ")),
    "repeats": lambda c, s: c.choice(WORDS + EMOJI + SPACES + list("ab-=_#*.▁")) * c.randint(1, 80) + c.choice(["", "a", " b"]),
    "any": lambda c, s: "".join(chr(c.choice([c.randrange(1, 0xD800), c.randrange(0xE000, 0x110000)])) for _ in range(c.randint(1, 12))),
    "special": lambda c, s: blend(c, s + WORDS[:20] + SPACES[:20] if s else WORDS, 1, 12, ("", "", " ", "\n")),
}


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
