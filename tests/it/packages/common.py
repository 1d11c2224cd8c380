"""Inputs that all scripts of Python packages share. Arguments of a script: host, name of the model that calls tools."""

import json
import sys

host, caller = sys.argv[1:]
QUESTION = "How do I pull a model?"
WEATHER = "How is the weather?"
RESULT = "3"
IMAGE = "aGk="
SCHEMA = {"title": "Check", "description": "A check.", "type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"], "additionalProperties": False}


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
