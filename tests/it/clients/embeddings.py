"""Embeddings through the `ollama` and `openai` packages.

Arguments: host, name of the model, a JSON file with `texts`. Prints one JSON object with the results. Vectors are base64
of little-endian f32.
"""

import base64
import json
import struct
import sys

import ollama
import openai

host, model, path = sys.argv[1:]
with open(path, encoding="utf-8") as file:
    texts = json.load(file)["texts"]
native = ollama.Client(host=host)
client = openai.OpenAI(base_url=f"{host}/v1", api_key="unused", max_retries=0)


def packed(vectors):
    return base64.b64encode(b"".join(struct.pack(f"<{len(vector)}f", *vector) for vector in vectors)).decode()


response = native.embed(model=model, input=texts)
report = {"vectors": packed(response.embeddings), "tokens": response.prompt_eval_count}
report["one"] = packed(native.embed(model=model, input=texts[0]).embeddings)
report["legacy"] = packed([native.embeddings(model=model, prompt=texts[0]).embedding])
report["short"] = [len(vector) for vector in native.embed(model=model, input=texts[:2], dimensions=64).embeddings]
report["empty"] = [list(native.embed(model=model, input=[]).embeddings), native.embed(model=model).prompt_eval_count]
report["shown"] = native.show(model).capabilities
report["listed"] = {row["name"]: row.get("capabilities") for row in native._request_raw("GET", "/api/tags").json()["models"]}

# The package requests base64 unless the caller names a format.
created = client.embeddings.create(model=model, input=texts)
report["openai"] = packed([item.embedding for item in created.data])
report["usage"] = [created.usage.prompt_tokens, created.usage.total_tokens]
floats = client.embeddings.create(model=model, input=texts[0], encoding_format="float", dimensions=32)
report["floats"] = len(floats.data[0].embedding)
ids = client.embeddings.create(model=model, input=[[101, 102], [101, 7592, 102]])
report["ids"] = [[item.index for item in ids.data], ids.usage.prompt_tokens]

refusals = {}


def refused(name, call):
    try:
        call()
        refusals[name] = "no error"
    except ollama.ResponseError as error:
        refusals[name] = ["ResponseError", error.status_code, error.error]
    except openai.APIStatusError as error:
        refusals[name] = [type(error).__name__, error.status_code, error.code]


long = "word " * 2000
refused("too long", lambda: native.embed(model=model, input=long, truncate=False))
refused("chat", lambda: native.chat(model=model, messages=[{"role": "user", "content": "hi"}]))
refused("generate", lambda: native.generate(model=model, prompt="hi"))
refused("no embeddings", lambda: native.embed(model="pebble", input="hi"))
refused("missing", lambda: client.embeddings.create(model="missing", input="hi"))
refused("nothing", lambda: client.embeddings.create(model=model, input=[]))
report["refusals"] = refusals
print(json.dumps(report))
