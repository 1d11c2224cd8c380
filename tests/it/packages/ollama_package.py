"""`ollama` of PyPI"""

import json

import ollama
from common import DIMENSIONS, IMAGE, LOOK, QUESTION, RESULT, SCHEMA, TEXTS, TOOL, WEATHER, caller, done, embedder, host, refusal, seer

client = ollama.Client(host=host)


def user(content, **more):
    return [{"role": "user", "content": content, **more}]


def vectors(texts, **options):
    return [list(vector) for vector in client.embed(model=embedder, input=texts, **options).embeddings]


greedy = {"model": "pebble", "options": {"temperature": 0, "num_predict": 12}}
report = {"list": sorted(model.model for model in client.list().models)}
report["chat"] = client.chat(messages=user(QUESTION), **greedy).message.content
report["stream"] = "".join(chunk.message.content for chunk in client.chat(messages=user(QUESTION), stream=True, **greedy))

called = client.chat(model=caller, messages=user(WEATHER), tools=[TOOL]).message
result = {"role": "tool", "tool_name": "weather", "content": RESULT}
answered = client.chat(model=caller, messages=[*user(WEATHER), called, result], tools=[TOOL]).message
calls = [[call.function.name, dict(call.function.arguments)] for call in called.tool_calls]
report["tools"] = [calls, answered.content]

options = {"temperature": 0, "num_predict": 200}
structured = client.chat(model="pebble", options=options, messages=user(QUESTION), format=SCHEMA)
report["schema"] = list(json.loads(structured.message.content))
report["embeddings"] = {"texts": vectors(TEXTS), "one": vectors(TEXTS[0])[0], "short": vectors(TEXTS, dimensions=DIMENSIONS)}
image = user(LOOK, images=[IMAGE])
seen = client.chat(messages=image, **{**greedy, "model": seer}).message.content
report["image"] = [refusal(lambda: client.chat(messages=image, **greedy), ollama.ResponseError), seen]
stream = client.chat(model="pebble", messages=user(QUESTION), stream=True, options={"num_predict": 5000})
report["cancel"] = isinstance(next(stream).message.content, str)
stream.close()
report["missing"] = refusal(lambda: client.chat(model="missing", messages=user(QUESTION)), ollama.ResponseError)
done(report)
