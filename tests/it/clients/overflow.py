"""Chats that outgrow their context, through the real `ollama` package.

Argument: host. Prints one JSON object: how a request that must stay whole was refused, how an answer that may not go on
ended, the turns at which a streamed answer differs from a whole one, how many turns went in all, the fewest tokens that were
found computed once turns went, and how many answers told of it.
"""

import json
import sys
import urllib.request

import ollama

host = sys.argv[1]
client = ollama.Client(host=host)
OPTIONS = {"temperature": 0, "num_predict": 24, "num_ctx": 320}
SYSTEM = "You are a guide. Answer in short words, say only what you know, and name the command that helps with each question."
QUESTIONS = ["How do I pull a model?", "What is a cache tier?", "Where are my models kept?", "How do I stop a model?"]


def raw(messages, **more):
    """The same request without the package, which does not know our fields."""
    body = {"model": "pebble", "messages": messages, "stream": False, "options": OPTIONS, **more}
    request = urllib.request.Request(host + "/api/chat", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


messages = [{"role": "system", "content": SYSTEM}]
seams, dropped, cached, told = [], 0, [], 0
for turn in range(14):
    messages.append({"role": "user", "content": f"{QUESTIONS[turn % 4]} This is question {turn}."})
    whole = client.chat("pebble", messages, options=OPTIONS).message.content
    streamed = "".join(part.message.content or "" for part in client.chat("pebble", messages, stream=True, options=OPTIONS))
    last = raw(messages)
    if streamed != whole or last["message"]["content"] != whole:
        seams.append([turn, whole, streamed, last])
    if truncated := last.get("truncated"):
        dropped += truncated["turns"]
        cached.append(last.get("cached_tokens", 0))
        told += 3
    messages.append({"role": "assistant", "content": whole})

messages.append({"role": "user", "content": QUESTIONS[0]})
try:
    raw(messages, truncate=False)
    refused = None
except urllib.error.HTTPError as error:
    words = json.load(error)["error"]
    refused = [error.code, words.startswith("the prompt is longer than the context length currently available to the model")]

few = [{"role": "user", "content": "Tell me all that you know."}]
prompt_tokens = raw(few, options={**OPTIONS, "num_predict": 1})["prompt_eval_count"]
endless = {**OPTIONS, "num_predict": -1, "num_ctx": prompt_tokens + 4}
ended = raw(few, shift=False, options=endless)["done_reason"]

report = {"refused": refused, "ended": ended, "seams": seams, "dropped": dropped, "least_cached": min(cached, default=None)}
print(json.dumps({**report, "told": told}))
