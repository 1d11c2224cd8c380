"""`llama-index-llms-openai-like`"""

import base64
import json

import openai
from common import IMAGE, LOOK, QUESTION, RESULT, SCHEMA, WEATHER, caller, done, host, refusal, seer
from llama_index.core.llms import ChatMessage, ImageBlock, TextBlock
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike


def weather(city: str, days: int) -> str:
    """The weather of a city."""
    return RESULT


def model(name, **options):
    settings = {"is_chat_model": True, "is_function_calling_model": True, "context_window": 2048, "max_retries": 0}
    return OpenAILike(model=name, api_base=f"{host}/v1", api_key="unused", **settings, **options)


question = [ChatMessage(QUESTION)]
greedy = model("pebble", max_tokens=12, temperature=0)
report = {"chat": greedy.chat(question).message.content}
report["stream"] = "".join(chunk.delta for chunk in greedy.stream_chat(question))

calling, tools = model(caller), [FunctionTool.from_defaults(weather)]
asked = ChatMessage(WEATHER)
called = calling.chat_with_tools(tools, chat_history=[asked], allow_parallel_tool_calls=True)
calls = calling.get_tool_calls_from_response(called)
result = ChatMessage(RESULT, role="tool", additional_kwargs={"tool_call_id": calls[0].tool_id})
answered = calling.chat_with_tools(tools, chat_history=[asked, called.message, result])
report["tools"] = [[[call.tool_name, call.tool_kwargs] for call in calls], answered.message.content]

schema = {"type": "json_schema", "json_schema": {"name": "check", "schema": SCHEMA}}
structured = model("pebble", max_tokens=200, temperature=0).chat(question, response_format=schema)
report["schema"] = list(json.loads(structured.message.content))
image = ChatMessage(blocks=[TextBlock(text=LOOK), ImageBlock(image=base64.b64decode(IMAGE), image_mimetype="image/png")])
seen = model(seer, max_tokens=12, temperature=0).chat([image]).message.content
report["image"] = [refusal(lambda: greedy.chat([image]), openai.APIStatusError), seen]
stream = model("pebble", max_tokens=5000).stream_chat(question)
report["cancel"] = isinstance(next(stream).delta, str)
stream.close()
report["missing"] = refusal(lambda: model("missing").chat(question), openai.APIStatusError)
done(report)
