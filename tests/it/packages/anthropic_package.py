"""`anthropic` of PyPI"""

import json

import anthropic
from common import IMAGE, LOOK, QUESTION, RESULT, SCHEMA, TOOL, WEATHER, caller, done, host, refusal, seer

client = anthropic.Anthropic(base_url=host, api_key="unused", max_retries=0)
TOOLS = [{"name": "weather", "description": "The weather.", "input_schema": TOOL["function"]["parameters"]}]


def user(content):
    return {"role": "user", "content": content}


def text(message):
    return "".join(block.text for block in message.content if block.type == "text")


# The package has no parameter for the temperature, but the API has.
greedy = {"model": "pebble", "max_tokens": 12, "extra_body": {"temperature": 0}}
report = {"list": sorted(model.id for model in client.models.list())}
report["chat"] = text(client.messages.create(messages=[user(QUESTION)], **greedy))
with client.messages.stream(messages=[user(QUESTION)], **greedy) as stream:
    report["stream"] = "".join(stream.text_stream)

called = client.messages.create(model=caller, max_tokens=500, messages=[user(WEATHER)], tools=TOOLS)
uses = [block for block in called.content if block.type == "tool_use"]
result = user([{"type": "tool_result", "tool_use_id": uses[0].id, "content": RESULT}])
messages = [user(WEATHER), {"role": "assistant", "content": called.content}, result]
answered = client.messages.create(model=caller, max_tokens=500, messages=messages, tools=TOOLS)
report["tools"] = [[[use.name, use.input] for use in uses], text(answered)]

config = {"format": {"type": "json_schema", "schema": SCHEMA}}
structured = client.messages.create(**{**greedy, "max_tokens": 200}, messages=[user(QUESTION)], output_config=config)
report["schema"] = list(json.loads(text(structured)))
source = {"type": "base64", "media_type": "image/png", "data": IMAGE}
image = [user([{"type": "image", "source": source}, {"type": "text", "text": LOOK}])]
seen = text(client.messages.create(messages=image, **{**greedy, "model": seer}))
report["image"] = [refusal(lambda: client.messages.create(messages=image, **greedy), anthropic.APIStatusError), seen]
stream = client.messages.create(model="pebble", max_tokens=5000, messages=[user(QUESTION)], stream=True)
report["cancel"] = next(iter(stream)).type == "message_start"
stream.close()
missing = {"model": "missing", "max_tokens": 1, "messages": [user(QUESTION)]}
report["missing"] = refusal(lambda: client.messages.create(**missing), anthropic.APIStatusError)
done(report)
