"""Pebble's byte-level BPE: trained on the corpus, split as llama.cpp's `llama-bpe` splits, written as bpe.json.

Tokens are spelt with GPT-2's printable stand-ins for bytes, as GGUF wants them. Special tokens come last.
"""

import json
import re
import sys
from collections import Counter
from pathlib import Path

from corpus import conversations

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
# The expression of llama-bpe. Python's `re` has no \p{L}: [^\W\d_] stands for it and \d for \p{N}.
WORDS = re.compile(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|(?:[^\r\n\w]|_)?[^\W\d_]+|\d{1,3}| ?(?:[^\s\w]|_)+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def byte_spelling():
    """GPT-2's table: byte -> printable character."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    table = {byte: chr(byte) for byte in plain}
    for byte in range(256):
        if byte not in table:
            table[byte] = chr(256 + len(table) - len(plain))
    return table


SPELLING = byte_spelling()


def train(counts, size):
    """Merges in order for a vocabulary of `size` tokens, special ones included."""
    words = [([SPELLING[b] for b in word.encode()], count) for word, count in sorted(counts.items())]
    merges, tokens = [], [SPELLING[b] for b in range(256)]
    pairs, where = Counter(), {}
    for index, (parts, count) in enumerate(words):
        for pair in zip(parts, parts[1:]):
            pairs[pair] += count
            where.setdefault(pair, set()).add(index)
    while len(tokens) + len(SPECIAL) < size:
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        merges.append(best)
        tokens.append("".join(best))
        for index in where.pop(best):
            parts, count = words[index]
            for pair in zip(parts, parts[1:]):
                pairs[pair] -= count
            at = 0
            while at < len(parts) - 1:
                if (parts[at], parts[at + 1]) == best:
                    parts[at : at + 2] = ["".join(best)]
                at += 1
            for pair in zip(parts, parts[1:]):
                pairs[pair] += count
                where.setdefault(pair, set()).add(index)
        del pairs[best]
    return merges, list(dict.fromkeys(tokens)) + SPECIAL


class Bpe:
    """Text <-> ids."""

    def __init__(self, path=Path(__file__).parent / "bpe.json"):
        data = json.loads(path.read_text())
        self.tokens, self.merges = data["tokens"], [tuple(m.split(" ")) for m in data["merges"]]
        self.ids = {token: index for index, token in enumerate(self.tokens)}
        self.ranks = {pair: rank for rank, pair in enumerate(self.merges)}
        self.end, self.im_start, self.im_end = (self.ids[token] for token in SPECIAL)
        self.bytes = {character: byte for byte, character in SPELLING.items()}
        self.known = {}

    def word(self, word):
        """The ids of one piece of the split."""
        if word not in self.known:
            parts = [SPELLING[b] for b in word.encode()]
            while len(parts) > 1:
                rank, at = min((self.ranks.get(pair, 1 << 30), at) for at, pair in enumerate(zip(parts, parts[1:])))
                if rank == 1 << 30:
                    break
                parts[at : at + 2] = [parts[at] + parts[at + 1]]
            self.known[word] = [self.ids[part] for part in parts]
        return self.known[word]

    def encode(self, text):
        """Ids of `text`, in which special tokens are ordinary text."""
        return [i for word in WORDS.findall(text) for i in self.word(word)]

    def decode(self, ids):
        """Text of `ids`; special tokens vanish."""
        return bytes(self.bytes[c] for i in ids if i < self.end for c in self.tokens[i]).decode(errors="replace")

    def chat(self, messages, answer=False):
        """Ids of a chat in its template, and for each how much Pebble is to learn to say it: 1, 3 at an
        answer's head, and a little of the questions, whose words get their meaning from that."""
        ids, learn = [], []
        for role, text in messages:
            head = [self.im_start] + self.encode(f"{role}\n" + ("" if role == "assistant" else text))
            said = (self.encode(text) if role == "assistant" else []) + [self.im_end]
            tail = self.encode("\n")
            ids += head + said + tail
            weights = [3.0] * 8 + [1.0] * len(said) if role == "assistant" else [0.0]
            learn += ([0.2] if role == "user" else [0.0]) * len(head) + weights[: len(said)] + [0.0] * len(tail)
        if answer:
            ids += [self.im_start] + self.encode("assistant\n")
        return ids, learn


def main(size=2304, chats=60_000):
    counts, source = Counter(), conversations(seed=0)
    for _ in range(chats):
        for role, text in next(source):
            counts.update(WORDS.findall(text if role == "assistant" else f"{role}\n{text}"))
    merges, tokens = train(counts, size)
    lines = {"tokens": tokens, "merges": [" ".join(m) for m in merges]}
    (Path(__file__).parent / "bpe.json").write_text(json.dumps(lines, ensure_ascii=False, indent=0) + "\n")
    bpe = Bpe()
    sample = [next(source) for _ in range(500)]
    ids = [bpe.chat(chat) for chat in sample]
    print(len(tokens), "tokens;", sum(len(i) for i, _ in ids) / 500, "per chat,", sum(w > 0 for _, l in ids for w in l) / 500, "learnt")
    text = "How do I pull llama3.2?\n`cairn run ./x.gguf`  \"\"\" été"
    assert bpe.decode(bpe.encode(text)) == text


if __name__ == "__main__":
    sys.exit(main())
