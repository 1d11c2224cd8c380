"""The Anthropic API through the `anthropic` package, on the built-in model and on one that recites tool calls.

Arguments: host, name of the reciting model. Prints one JSON object with the results.
"""

import json
import sys

import anthropic

host, reciter = sys.argv[1:]
client = anthropic.Anthropic(base_url=host, api_key="unused", max_retries=0)
QUESTION = [{"role": "user", "content": "How do I pull a model?"}]
TOOLS = [
    {
        "name": "weather",
        "description": "The weather of a city.",
        "input_schema": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}},
    }
]
# The package has no parameter for the temperature, but the API has.
GREEDY = {"model": "pebble", "max_tokens": 12, "extra_body": {"temperature": 0}}
report = {}

message = client.messages.create(messages=QUESTION, system="Be short.", **GREEDY)
report["message"] = {
    "text": "".join(block.text for block in message.content),
    "stop_reason": message.stop_reason,
    "tokens": message.usage.input_tokens + message.usage.cache_read_input_tokens,
    "output_tokens": message.usage.output_tokens,
}
with client.messages.stream(messages=QUESTION, system="Be short.", **GREEDY) as stream:
    text = "".join(stream.text_stream)
    final = stream.get_final_message()
report["streamed"] = {
    "text": text,
    "stop_reason": final.stop_reason,
    "tokens": final.usage.input_tokens + final.usage.cache_read_input_tokens,
    "output_tokens": final.usage.output_tokens,
}
counted = client.messages.count_tokens(model="pebble", messages=QUESTION, system="Be short.")
report["counted"] = counted.input_tokens

# A call of a tool, its result, and the answer.
asked = [{"role": "user", "content": "How is the weather?"}]
with client.messages.stream(model=reciter, max_tokens=500, messages=asked, tools=TOOLS) as stream:
    called = stream.get_final_message()
uses = [block for block in called.content if block.type == "tool_use"]
results = [{"type": "tool_result", "tool_use_id": uses[0].id, "content": "3"}]
messages = [*asked, {"role": "assistant", "content": called.content}, {"role": "user", "content": results}]
answered = client.messages.create(model=reciter, max_tokens=500, messages=messages, tools=TOOLS)
report["tools"] = {
    "text": [block.text for block in called.content if block.type == "text"],
    "calls": [[use.name, use.input] for use in uses],
    "stop_reason": called.stop_reason,
    "answer": [[block.text for block in answered.content], answered.stop_reason],
}

# The client closes the connection after the first event.
stream = client.messages.create(model="pebble", messages=QUESTION, stream=True, max_tokens=5000)
next(iter(stream))
stream.close()


def refusal(call):
    try:
        call()
    except anthropic.APIStatusError as error:
        return [type(error).__name__, error.status_code, error.body["error"]["type"]]
    return None


source = {"type": "base64", "media_type": "image/png", "data": "aGk="}
image = [{"role": "user", "content": [{"type": "image", "source": source}]}]
report["refusals"] = {
    "missing": refusal(lambda: client.messages.create(model="missing", max_tokens=1, messages=QUESTION)),
    "image": refusal(lambda: client.messages.create(model="pebble", max_tokens=1, messages=image)),
    "no messages": refusal(lambda: client.messages.create(model="pebble", max_tokens=1, messages=[])),
}
json.dump(report, sys.stdout)
