"""Logprobs through the `ollama` package: chat, streamed chat and generate.

Argument: host. Prints one JSON object: for each method the text, the concatenated tokens, their number, the lengths of
the lists of alternatives, and whether each token is the likeliest of its list.
"""

import json
import sys

import ollama

client = ollama.Client(host=sys.argv[1])
OPTIONS = {"temperature": 0, "num_predict": 12}
MESSAGES = [{"role": "user", "content": "How do I pull a model?"}]


def report(text, logprobs, eval_count):
    return {
        "text": text,
        "text_of_tokens": "".join(token.token for token in logprobs),
        "tokens": len(logprobs),
        "eval_count": eval_count,
        "tops": sorted({len(token.top_logprobs) for token in logprobs}),
        "greedy": all(token.logprob == max(other.logprob for other in token.top_logprobs) for token in logprobs),
    }


chat = client.chat("pebble", MESSAGES, options=OPTIONS, logprobs=True, top_logprobs=4)
text, logprobs, last = "", [], None
for part in client.chat("pebble", MESSAGES, options=OPTIONS, logprobs=True, top_logprobs=4, stream=True):
    text += part.message.content or ""
    logprobs += part.logprobs or []
    last = part
generate = client.generate("pebble", MESSAGES[0]["content"], options=OPTIONS, logprobs=True, top_logprobs=4)
print(json.dumps({
    "chat": report(chat.message.content, chat.logprobs, chat.eval_count),
    "chat_streamed": report(text, logprobs, last.eval_count),
    "generate": report(generate.response, generate.logprobs, generate.eval_count),
}))
