"""`instructor` over the package `openai`"""

import instructor
import openai
from common import IMAGE, QUESTION, done, host, refusal, seer
from instructor.core.exceptions import InstructorRetryException
from pydantic import BaseModel, ConfigDict


class Check(BaseModel):
    """A check."""

    model_config = ConfigDict(extra="forbid")
    ok: bool


client = instructor.from_openai(
    openai.OpenAI(base_url=f"{host}/v1", api_key="unused", max_retries=0), mode=instructor.Mode.JSON_SCHEMA
)
QUESTIONS = [{"role": "user", "content": QUESTION}]
GREEDY = {"model": "pebble", "temperature": 0, "max_tokens": 200, "max_retries": 0, "response_model": Check}
report = {"schema": list(client.create(messages=QUESTIONS, **GREEDY).model_dump())}
*_, last = client.create_partial(messages=QUESTIONS, **GREEDY)
report["stream"] = list(last.model_dump())
part = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{IMAGE}"}}
images = [{"role": "user", "content": [part]}]
errors = (openai.APIStatusError, InstructorRetryException)
seen = list(client.create(messages=images, **{**GREEDY, "model": seer}).model_dump())
report["image"] = [refusal(lambda: client.create(messages=images, **GREEDY), *errors), seen]
report["missing"] = refusal(lambda: client.create(messages=QUESTIONS, **{**GREEDY, "model": "missing"}), *errors)
done(report)
