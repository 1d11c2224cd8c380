"""Hooks of schemathesis: requests that exist, and a check of streamed responses.

`CAIRN_CHAT` is the id of a chat.
"""

import json
import os

import jsonschema_rs
import schemathesis

CHAT = os.environ["CAIRN_CHAT"]
MODELS = ("pebble", "caller")


@schemathesis.hook
def map_path_parameters(context, parameters):
    """Names the chat in one of two requests."""
    if parameters and "id" in parameters and len(str(parameters["id"])) % 2:
        parameters["id"] = CHAT
    return parameters


@schemathesis.hook
def map_body(context, body):
    """Names a model that exists in most requests, and keeps answers short."""
    if not isinstance(body, dict):
        return body
    name = body.get("model")
    if isinstance(name, str) and len(name) % 4:
        body["model"] = MODELS[len(name) % 2]
    for key in ("max_tokens", "max_completion_tokens"):
        if isinstance(body.get(key), int):
            body[key] = min(body[key], 4)
    if isinstance(body.get("options"), dict):
        body["options"].setdefault("num_predict", 4)
    return body


@schemathesis.check
def streamed_lines_match_schema(ctx, response, case):
    """Each line of a stream has the schema of the media type, or is an error."""
    kind = (response.headers.get("content-type") or [""])[0].split(";")[0]
    if kind not in ("application/x-ndjson", "text/event-stream"):
        return
    document = case.operation.schema.raw_schema
    operation = document["paths"][case.operation.path][case.operation.method.lower()]
    success = next(iter(operation["responses"].values()))
    line = success["content"][kind].get("schema", {})
    error = operation["responses"]["5XX"]["content"]["application/json"]["schema"]
    validator = jsonschema_rs.validator_for({"anyOf": [line, error], "components": document["components"]})
    text = response.content.decode()
    # Strings may have other characters that end a line in Python.
    lines = text.split("\n")
    if kind == "text/event-stream":
        lines = [data.removeprefix("data: ") for data in lines if data.startswith("data: ") and data != "data: [DONE]"]
    for line in filter(None, lines):
        errors = [error.message for error in validator.iter_errors(json.loads(line))]
        assert not errors, f"{line}: {errors}"
