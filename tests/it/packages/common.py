"""Inputs that all scripts of Python packages share.

Arguments of a script: host, names of the model that calls tools, of the embedding model and of the model that sees, and a PNG file in
base64.
"""

import json
import sys

host, caller, embedder, seer, IMAGE = sys.argv[1:]
QUESTION = "How do I pull a model?"
WEATHER = "How is the weather?"
RESULT = "3"
LOOK = "What do you see?"
TEXTS = ["A stone.", "How far away is the sun?"]
DIMENSIONS = 16
SCHEMA = {"title": "Check", "description": "A check.", "type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"], "additionalProperties": False}
TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather of a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}},
    },
}


def refusal(call, *errors):
    """The class of the error that a call raises, and the status in it or in its cause."""
    try:
        call()
    except errors as error:
        return [type(error).__name__, next((s for s in (getattr(e, "status_code", None) for e in causes(error)) if s), None)]
    return None


def causes(error):
    while error:
        yield error
        error = error.__cause__ or error.__context__


def done(report):
    json.dump(report, sys.stdout)
