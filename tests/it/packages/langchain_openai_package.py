"""`langchain-openai`"""

import openai
from common import DIMENSIONS, IMAGE, LOOK, QUESTION, RESULT, SCHEMA, TEXTS, WEATHER, caller, done, embedder, host, refusal, seer
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAIEmbeddings


@tool
def weather(city: str, days: int) -> str:
    """The weather of a city."""
    return RESULT


def model(name, **options):
    return ChatOpenAI(model=name, base_url=f"{host}/v1", api_key="unused", max_retries=0, **options)


greedy = model("pebble", temperature=0, max_tokens=12)
report = {"chat": greedy.invoke(QUESTION).content}
report["stream"] = "".join(chunk.content for chunk in greedy.stream(QUESTION))

calling = model(caller).bind_tools([weather])
called = calling.invoke(WEATHER)
calls = called.tool_calls
answered = calling.invoke([HumanMessage(WEATHER), called, ToolMessage(RESULT, tool_call_id=calls[0]["id"])])
report["tools"] = [[[call["name"], call["args"]] for call in calls], answered.content]

structured = model("pebble", temperature=0, max_tokens=200).with_structured_output(SCHEMA, method="json_schema")
report["schema"] = list(structured.invoke(QUESTION))



def vectors(**options):
    # The package sends texts instead of the tokens of OpenAI's models.
    settings = {"check_embedding_ctx_length": False, "max_retries": 0}
    return OpenAIEmbeddings(model=embedder, base_url=f"{host}/v1", api_key="unused", **settings, **options)


floats = vectors(model_kwargs={"encoding_format": "float"})
report["embeddings"] = {
    "texts": floats.embed_documents(TEXTS),
    "one": floats.embed_query(TEXTS[0]),
    "short": vectors(dimensions=DIMENSIONS).embed_documents(TEXTS),
    # The package requests base64 unless the caller names a format.
    "base64": vectors().embed_documents(TEXTS),
}

picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{IMAGE}"}}
image = HumanMessage([{"type": "text", "text": LOOK}, picture])
seen = model(seer, temperature=0, max_tokens=12).invoke([image]).content
report["image"] = [refusal(lambda: greedy.invoke([image]), openai.APIStatusError), seen]
stream = model("pebble", max_tokens=5000).stream(QUESTION)
report["cancel"] = isinstance(next(stream).content, str)
stream.close()
report["missing"] = refusal(lambda: model("missing").invoke(QUESTION), openai.APIStatusError)
done(report)
