"""`langchain-ollama`"""

import ollama
from common import DIMENSIONS, IMAGE, LOOK, QUESTION, RESULT, SCHEMA, TEXTS, WEATHER, caller, done, embedder, host, refusal, seer
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_ollama import ChatOllama, OllamaEmbeddings


@tool
def weather(city: str, days: int) -> str:
    """The weather of a city."""
    return RESULT


greedy = ChatOllama(model="pebble", base_url=host, temperature=0, num_predict=12)
report = {"chat": greedy.invoke(QUESTION).content}
report["stream"] = "".join(chunk.content for chunk in greedy.stream(QUESTION))

calling = ChatOllama(model=caller, base_url=host).bind_tools([weather])
called = calling.invoke(WEATHER)
calls = called.tool_calls
answered = calling.invoke([HumanMessage(WEATHER), called, ToolMessage(RESULT, tool_call_id=calls[0]["id"])])
report["tools"] = [[[call["name"], call["args"]] for call in calls], answered.content]

structured = ChatOllama(model="pebble", base_url=host, temperature=0, num_predict=200)
report["schema"] = list(structured.with_structured_output(SCHEMA, method="json_schema").invoke(QUESTION))

vectors = OllamaEmbeddings(model=embedder, base_url=host)
report["embeddings"] = {
    "texts": vectors.embed_documents(TEXTS),
    "one": vectors.embed_query(TEXTS[0]),
    "short": OllamaEmbeddings(model=embedder, base_url=host, dimensions=DIMENSIONS).embed_documents(TEXTS),
}

image = HumanMessage([{"type": "text", "text": LOOK}, {"type": "image_url", "image_url": f"data:image/png;base64,{IMAGE}"}])
seen = ChatOllama(model=seer, base_url=host, temperature=0, num_predict=12).invoke([image]).content
report["image"] = [refusal(lambda: greedy.invoke([image]), ollama.ResponseError), seen]
stream = ChatOllama(model="pebble", base_url=host, num_predict=5000).stream(QUESTION)
report["cancel"] = isinstance(next(stream).content, str)
stream.close()
missing = ChatOllama(model="missing", base_url=host)
report["missing"] = refusal(lambda: missing.invoke(QUESTION), ollama.ResponseError)
done(report)
