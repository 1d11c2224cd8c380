"""`litellm` with its providers `ollama_chat` and, for the list and embeddings, `ollama`"""

import json
import os

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
import litellm
import openai
from common import DIMENSIONS, IMAGE, LOOK, QUESTION, RESULT, SCHEMA, TEXTS, TOOL, WEATHER, caller, done, embedder, host, refusal, seer

# It prints advice on errors to the output, which has the report.
litellm.suppress_debug_info = True


def complete(model, messages, **options):
    return litellm.completion(f"ollama_chat/{model}", messages, api_base=host, num_retries=0, **options)


def user(content):
    return [{"role": "user", "content": content}]


greedy = {"temperature": 0, "max_tokens": 12}
names = litellm.get_valid_models(check_provider_endpoint=True, custom_llm_provider="ollama", api_base=host)
report = {"list": sorted(name.removeprefix("ollama/") for name in names)}
report["chat"] = complete("pebble", user(QUESTION), **greedy).choices[0].message.content
chunks = complete("pebble", user(QUESTION), stream=True, **greedy)
report["stream"] = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)

called = complete(caller, user(WEATHER), tools=[TOOL]).choices[0].message
calls = called.tool_calls
result = {"role": "tool", "tool_call_id": calls[0].id, "content": RESULT}
answered = complete(caller, [*user(WEATHER), called.model_dump(), result], tools=[TOOL]).choices[0].message
report["tools"] = [[[call.function.name, json.loads(call.function.arguments)] for call in calls], answered.content]

schema = {"type": "json_schema", "json_schema": {"name": "check", "schema": SCHEMA, "strict": True}}
structured = complete("pebble", user(QUESTION), temperature=0, max_tokens=200, response_format=schema)
report["schema"] = list(json.loads(structured.choices[0].message.content))



def vectors(texts, **options):
    return [item["embedding"] for item in litellm.embedding(f"ollama/{embedder}", texts, api_base=host, **options).data]


report["embeddings"] = {"texts": vectors(TEXTS), "one": vectors(TEXTS[0])[0], "short": vectors(TEXTS, dimensions=DIMENSIONS)}

image = [{"type": "text", "text": LOOK}, {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{IMAGE}"}}]
seen = complete(seer, user(image), **greedy).choices[0].message.content
report["image"] = [refusal(lambda: complete("pebble", user(image)), openai.APIError), seen]
stream = complete("pebble", user(QUESTION), stream=True, max_tokens=5000)
report["cancel"] = isinstance(next(iter(stream)).choices[0].delta.content, str)
stream.completion_stream.close()
report["missing"] = refusal(lambda: complete("missing", user(QUESTION)), openai.APIError)
done(report)
