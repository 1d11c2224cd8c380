"""API keys through the packages `openai` and `anthropic`.

Arguments: host, a key for chats, a key for models, a revoked key. Prints one JSON object with the results.
"""

import json
import sys

import anthropic
import openai

host, chat, models, revoked = sys.argv[1:]
QUESTION = [{"role": "user", "content": "How do I pull a model?"}]


def ask_openai(key):
    client = openai.OpenAI(base_url=f"{host}/v1", api_key=key, max_retries=0)
    try:
        answer = client.chat.completions.create(model="pebble", messages=QUESTION, max_tokens=4)
        return bool(answer.choices[0].message.content)
    except openai.APIStatusError as error:
        return [type(error).__name__, error.status_code]


def ask_anthropic(key):
    client = anthropic.Anthropic(base_url=host, api_key=key, max_retries=0)
    try:
        answer = client.messages.create(model="pebble", messages=QUESTION, max_tokens=4)
        return bool(answer.content[0].text)
    except anthropic.APIStatusError as error:
        return [type(error).__name__, error.status_code]


keys = {"chat": chat, "models": models, "revoked": revoked, "unknown": "unused"}
report = {
    name: {kind: ask(key) for kind, key in keys.items()}
    for name, ask in (("openai", ask_openai), ("anthropic", ask_anthropic))
}
json.dump(report, sys.stdout)
