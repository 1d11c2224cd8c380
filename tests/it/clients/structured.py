"""Answers with an output format through the `ollama` package: each must be JSON that a validator of JSON Schema accepts.

Arguments: host, number of the first answer, number of answers. The answer with the number N uses the schema N modulo their
number, and the seed N. Prints one JSON object with the results.
"""

import json
import sys

import ollama
from jsonschema import Draft202012Validator

host, first, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
client = ollama.Client(host=host)


def text(most=12, **more):
    return {"type": "string", "maxLength": most, **more}


def record(**properties):
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def array(items, most=4, **more):
    return {"type": "array", "items": items, "maxItems": most, **more}


small = {"type": "integer", "minimum": -20, "maximum": 120}
share = {"type": "number", "minimum": 0, "maximum": 1, "multipleOf": 0.25}
color = {"enum": ["red", "green", "blue"]}
day = {"type": "string", "format": "date"}
cat = record(kind={"const": "cat"}, lives={"type": "integer", "minimum": 1, "maximum": 9})
dog = record(kind={"const": "dog"}, name=text())
SCHEMAS = [
    {"type": "boolean"},
    {"type": "null"},
    small,
    share,
    color,
    text(),
    text(8, minLength=3),
    text(8, pattern="^[a-z]{2,6}$"),
    day,
    {"type": "string", "format": "time"},
    {"type": "string", "format": "uuid"},
    {"type": "string", "format": "ipv4"},
    {"type": "string", "format": "hostname", "maxLength": 20},
    {"const": {"a": [1, None, "x"]}},
    {"enum": [1, "one", None, [1], {"n": 1}]},
    {"type": ["integer", "null"], "minimum": 0, "maximum": 9},
    array(small),
    array(color, minItems=2),
    array(color, uniqueItems=True),
    array({"type": "boolean"}, minItems=4),
    {"type": "array", "prefixItems": [color, small], "items": False, "minItems": 2},
    {"type": "array", "prefixItems": [color], "items": small, "maxItems": 3},
    array(small, contains={"minimum": 50}),
    array({"enum": [1, 2]}, contains={"const": 1}, minContains=1, maxContains=2),
    array(array(small, 2), 3),
    record(name=text(), age=small),
    record(color=color, day=day, share=share),
    record(name=text(), tags=array(text(6), 3), nested=record(color=color)),
    {**record(a=small, b=color), "required": ["a"]},
    {**record(a=small, b=color), "required": []},
    {**record(a=small), "additionalProperties": False, "patternProperties": {"^x[0-9]$": color}, "maxProperties": 1},
    {"anyOf": [small, color]},
    {"anyOf": [record(a=small), record(b=color)]},
    {"oneOf": [cat, dog]},
    {"type": "integer", "oneOf": [{"minimum": 0, "maximum": 60}, {"minimum": 40, "maximum": 90}]},
    {"allOf": [record(a=small), {"properties": {"a": {"minimum": 10}}}]},
    {"allOf": [{"type": "integer", "minimum": 0, "maximum": 60}, {"multipleOf": 6}, {"multipleOf": 4}]},
    {"type": ["integer", "boolean", "null"], "minimum": 0, "maximum": 9, "not": {"type": "null"}},
    {"type": "integer", "minimum": 0, "maximum": 9, "not": {"enum": [3, 4, 5]}},
    text(6, **{"not": {"enum": ["", "a", "no"]}}),
    {
        **record(country={"enum": ["NO", "DE"]}, code=text(5)),
        "if": {"properties": {"country": {"const": "NO"}}},
        "then": {"properties": {"code": {"pattern": "^[0-9]{4}$"}}},
        "else": {"properties": {"code": {"pattern": "^[0-9]{5}$"}}},
    },
    {**record(card=small, address=text()), "required": [], "dependentRequired": {"card": ["address"]}},
    {**record(a=small, b=color), "required": [], "dependentSchemas": {"a": {"required": ["b"]}}},
    {
        "type": "object",
        "allOf": [{"properties": {"a": small}, "required": ["a"]}],
        "properties": {"b": color},
        "unevaluatedProperties": False,
    },
    {"type": "array", "allOf": [{"prefixItems": [small]}], "unevaluatedItems": color, "maxItems": 3},
    {"$ref": "#/$defs/pair", "$defs": {"pair": record(left={"$ref": "#/$defs/leaf"}, right=color), "leaf": small}},
    {"$ref": "#leaf", "$defs": {"a": {"$anchor": "leaf", **record(day=day)}}},
    {
        **record(value=small, next={"anyOf": [{"type": "null"}, {"$ref": "#/$defs/node"}]}),
        "$defs": {"node": record(value=color, next={"type": "null"})},
    },
    record(id={"type": "string", "format": "uuid"}, at={"type": "string", "format": "date-time", "maxLength": 24}),
    record(**{f"p{index}": {"type": "boolean"} for index in range(12)}),
]
assert len(SCHEMAS) == 50, len(SCHEMAS)

report = {"answers": 0, "schemas": len(SCHEMAS), "faults": []}
for number in range(first, first + count):
    schema = SCHEMAS[number % len(SCHEMAS)]
    messages = [{"role": "user", "content": f"Give me an example, number {number}."}]
    options = {"temperature": 1.5, "seed": number, "num_predict": 1500}
    answer = client.chat(model="pebble", messages=messages, format=schema, options=options)
    report["answers"] += 1
    try:
        Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER).validate(
            json.loads(answer.message.content)
        )
    except Exception as error:
        fault = {"number": number, "error": str(error)[:300], "text": answer.message.content[:300], "done": answer.done_reason}
        report["faults"].append(fault)
json.dump(report, sys.stdout)
