"""Chats longer than their context, through the `ollama` package.

Argument: host. Prints one JSON object: the error of a request with `truncate: false`, the finish reason with `shift:
false`, the turns at which a streamed answer differs from an unstreamed one, the number of dropped turns, the fewest
cached tokens after truncation, and the number of answers that reported it.
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
    """Send the request without the package, which lacks Cairn's fields."""
    body = {"model": "pebble", "messages": messages, "stream": False, "options": OPTIONS, **more}
    request = urllib.request.Request(host + "/api/chat", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


messages = [{"role": "system", "content": SYSTEM}]
seams, dropped, cached, reported = [], 0, [], 0
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
        reported += 3
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
print(json.dumps({**report, "reported": reported}))
