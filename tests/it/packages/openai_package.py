"""`openai` of PyPI"""

import json

import openai
from common import DIMENSIONS, IMAGE, LOOK, QUESTION, RESULT, SCHEMA, TEXTS, TOOL, WEATHER, caller, done, embedder, host, refusal, seer

client = openai.OpenAI(base_url=f"{host}/v1", api_key="unused", max_retries=0)


def user(content):
    return [{"role": "user", "content": content}]


def complete(**body):
    return client.chat.completions.create(**body)


def vectors(texts, **options):
    return [item.embedding for item in client.embeddings.create(model=embedder, input=texts, **options).data]


greedy = {"model": "pebble", "temperature": 0, "max_tokens": 12}
report = {"list": sorted(model.id for model in client.models.list())}
report["chat"] = complete(messages=user(QUESTION), **greedy).choices[0].message.content
chunks = complete(messages=user(QUESTION), stream=True, **greedy)
report["stream"] = "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)

called = complete(model=caller, messages=user(WEATHER), tools=[TOOL]).choices[0].message
result = {"role": "tool", "tool_call_id": called.tool_calls[0].id, "content": RESULT}
answered = complete(model=caller, messages=[*user(WEATHER), called, result], tools=[TOOL]).choices[0].message
calls = [[call.function.name, json.loads(call.function.arguments)] for call in called.tool_calls]
report["tools"] = [calls, answered.content]

schema = {"type": "json_schema", "json_schema": {"name": "check", "schema": SCHEMA, "strict": True}}
structured = complete(**{**greedy, "max_tokens": 200}, messages=user(QUESTION), response_format=schema)
report["schema"] = list(json.loads(structured.choices[0].message.content))
report["embeddings"] = {
    "texts": vectors(TEXTS, encoding_format="float"),
    "one": vectors(TEXTS[0], encoding_format="float")[0],
    "short": vectors(TEXTS, dimensions=DIMENSIONS),
    # The package requests base64 unless the caller names a format.
    "base64": vectors(TEXTS),
}
picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{IMAGE}"}}
image = user([{"type": "text", "text": LOOK}, picture])
seen = complete(messages=image, **{**greedy, "model": seer}).choices[0].message.content
report["image"] = [refusal(lambda: complete(messages=image, **greedy), openai.APIStatusError), seen]
stream = complete(model="pebble", messages=user(QUESTION), stream=True, max_tokens=5000)
report["cancel"] = isinstance(next(iter(stream)).choices[0].delta.content, str)
stream.close()
report["missing"] = refusal(lambda: complete(model="missing", messages=user(QUESTION)), openai.APIStatusError)
done(report)
