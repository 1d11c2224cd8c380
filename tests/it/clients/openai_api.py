"""The OpenAI API through the `openai` package, on the built-in model and on one that recites tool calls.

Arguments: host, name of the reciting model. Prints one JSON object with the results.
"""

import json
import sys

import openai

host, reciter = sys.argv[1:]
client = openai.OpenAI(base_url=f"{host}/v1", api_key="unused", max_retries=0)
QUESTION = [{"role": "user", "content": "How do I pull a model?"}]
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "The weather of a city.",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}},
        },
    }
]
GREEDY = {"model": "pebble", "temperature": 0, "max_tokens": 12}
report = {"models": sorted(model.id for model in client.models.list())}
report["model"] = client.models.retrieve("pebble").id

chat = client.chat.completions.create(messages=QUESTION, **GREEDY)
report["chat"] = {
    "text": chat.choices[0].message.content,
    "finish_reason": chat.choices[0].finish_reason,
    "usage": [chat.usage.prompt_tokens, chat.usage.completion_tokens, chat.usage.total_tokens],
}

text, reasons, usage = "", [], None
options = {"include_usage": True}
for chunk in client.chat.completions.create(messages=QUESTION, stream=True, stream_options=options, **GREEDY):
    for choice in chunk.choices:
        text += choice.delta.content or ""
        reasons += [choice.finish_reason] if choice.finish_reason else []
    usage = chunk.usage or usage
report["streamed"] = {
    "text": text,
    "finish_reason": reasons,
    "usage": [usage.prompt_tokens, usage.completion_tokens, usage.total_tokens],
    "cached": usage.prompt_tokens_details.cached_tokens,
}

several = client.chat.completions.create(
    model="pebble", messages=QUESTION, n=2, seed=1, temperature=1, max_tokens=8, logprobs=True, top_logprobs=2
)
report["several"] = [
    [choice.index, len(choice.logprobs.content), {len(token.top_logprobs) for token in choice.logprobs.content} == {2}]
    for choice in several.choices
]

completion = client.completions.create(prompt="How do I pull a model?", **GREEDY)
report["completion"] = completion.choices[0].text
report["completion_streamed"] = "".join(
    chunk.choices[0].text for chunk in client.completions.create(prompt="How do I pull a model?", stream=True, **GREEDY)
)

# A call of a tool, its result, and the answer.
asked = [{"role": "user", "content": "How is the weather?"}]
called = client.chat.completions.create(model=reciter, messages=asked, tools=TOOLS).choices[0]
calls = called.message.tool_calls
result = {"role": "tool", "tool_call_id": calls[0].id, "content": "3"}
messages = [*asked, called.message, result]
answered = client.chat.completions.create(model=reciter, messages=messages, tools=TOOLS).choices[0]
report["tools"] = {
    "text": called.message.content,
    "calls": [[call.function.name, json.loads(call.function.arguments)] for call in calls],
    "finish_reason": called.finish_reason,
    "answer": [answered.message.content, answered.finish_reason],
}
with client.chat.completions.stream(model=reciter, messages=asked, tools=TOOLS) as stream:
    for event in stream:
        pass
    final = stream.get_final_completion().choices[0]
report["tools_streamed"] = [[c.function.name, json.loads(c.function.arguments)] for c in final.message.tool_calls]

# The endpoint of responses: text, stream, format, and a call with its result.
LIMITED = {"model": "pebble", "temperature": 0, "max_output_tokens": 12}
response = client.responses.create(input="How do I pull a model?", instructions="Be brief.", **LIMITED)
with client.responses.stream(input="How do I pull a model?", instructions="Be brief.", **LIMITED) as stream:
    events = list(stream)
deltas = "".join(event.delta for event in events if event.type == "response.output_text.delta")
# The library has no final response of an answer that its limit has cut.
final = events[-1].response
schema = {
    "type": "object",
    "properties": {"n": {"type": "integer", "minimum": 3, "maximum": 5}},
    "required": ["n"],
    "additionalProperties": False,
}
text = {"format": {"type": "json_schema", "name": "n", "strict": True, "schema": schema}}
shaped = client.responses.create(model="pebble", input="Count.", temperature=0, max_output_tokens=60, text=text)
report["responses"] = {
    "text": response.output_text,
    "streamed": [deltas, final.output_text],
    "status": [response.status, response.incomplete_details.reason, final.status],
    "usage": [response.usage.input_tokens + response.usage.output_tokens, final.usage.total_tokens],
    "number": json.loads(shaped.output_text)["n"],
}
functions = [{"type": "function", **tool["function"]} for tool in TOOLS]
items = [{"role": "user", "content": "How is the weather?"}]
called = client.responses.create(model=reciter, input=items, tools=functions)
with client.responses.stream(model=reciter, input=items, tools=functions) as stream:
    for event in stream:
        pass
    streamed_calls = [item for item in stream.get_final_response().output if item.type == "function_call"]
calls = [item for item in called.output if item.type == "function_call"]
result = {"type": "function_call_output", "call_id": calls[0].call_id, "output": "3"}
answered = client.responses.create(model=reciter, input=[*items, *called.output, result], tools=functions)
report["responses"]["calls"] = [[call.name, json.loads(call.arguments)] for call in calls]
report["responses"]["streamed_calls"] = [[call.name, json.loads(call.arguments)] for call in streamed_calls]
report["responses"]["answer"] = answered.output_text

# The client closes the connection after the first chunk.
stream = client.chat.completions.create(model="pebble", messages=QUESTION, stream=True, max_tokens=5000)
next(iter(stream))
stream.close()


def refusal(call):
    try:
        call()
    except openai.APIStatusError as error:
        return [type(error).__name__, error.status_code, error.code]
    return None


image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
report["refusals"] = {
    "missing": refusal(lambda: client.chat.completions.create(model="missing", messages=QUESTION)),
    "image": refusal(lambda: client.chat.completions.create(model="pebble", messages=[{"role": "user", "content": [image]}])),
    "no messages": refusal(lambda: client.chat.completions.create(model="pebble", messages=[])),
    "stored": refusal(lambda: client.responses.create(model="pebble", input="x", previous_response_id="resp_1")),
    "no route": refusal(lambda: client.fine_tuning.jobs.list()),
}
json.dump(report, sys.stdout)
