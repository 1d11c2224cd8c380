"""Pulls through the `ollama` package. Arguments: host, name of a model. Prints one JSON object: statuses and progress."""

import json
import sys

import ollama

host, name = sys.argv[1], sys.argv[2]
client = ollama.Client(host=host)

statuses, progress = [], {}
for part in client.pull(name, insecure=True, stream=True):
    if part.digest:
        progress.setdefault(part.digest, []).append((part.completed or 0, part.total or 0))
    elif not statuses or statuses[-1] != part.status:
        statuses.append(part.status)

whole = client.pull(name, insecure=True)
try:
    client.pull(name + "-missing", insecure=True)
    missing = None
except ollama.ResponseError as error:
    missing = [error.status_code, error.error]
try:
    for part in client.pull(name + "-missing", insecure=True, stream=True):
        pass
    missing_streamed = None
except ollama.ResponseError as error:
    missing_streamed = error.error

print(json.dumps({
    "statuses": statuses,
    "progress": progress,
    "whole": whole.status,
    "missing": missing,
    "missing_streamed": missing_streamed,
    "listed": [model.model for model in client.list().models],
}))
