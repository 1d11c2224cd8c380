"""Checks the test itself: its shape, that no required term gives itself away in its question, and that no question
comes out of the training templates. Exit code 1 names every offender."""

import json
import sys
from pathlib import Path

HERE = Path(__file__).parent


def faults(test, generated_by):
    """Yields one sentence per fault. `generated_by(question)` names the intent whose templates produce it, or None."""
    if len(test["on_topic"]) != 60 or len(test["off_topic"]) != 30:
        yield "the test must hold 60 questions about Cairn and 30 others"
    for case in test["on_topic"]:
        question = case["q"].lower()
        if len(case["need"]) < 2:
            yield f"fewer than two required terms: {case['q']}"
        for term in (term for any_of in case["need"] for term in any_of):
            if term.lower() in question:
                yield f"the term {term!r} stands in its question: {case['q']}"
    for question in [case["q"] for case in test["on_topic"]] + test["off_topic"]:
        if intent := generated_by(question):
            yield f"the templates of {intent!r} generate: {question}"


def main():
    test = json.loads((HERE / "test.json").read_text())
    try:
        from corpus import generated_by
    except ModuleNotFoundError:  # The test is older than the corpus.
        print("no corpus yet: only the terms are checked")
        generated_by = lambda question: None
    found = list(faults(test, generated_by))
    print("\n".join(found) or "the test is sound")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
