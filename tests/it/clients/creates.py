"""Models created through the `ollama` package: from another model, and from an uploaded file.

Arguments: host, path of a GGUF file in F16. Prints one JSON object: statuses and results.
"""

import json
import sys

import ollama

client = ollama.Client(host=sys.argv[1])


def refusal(act):
    try:
        act()
    except ollama.ResponseError as error:
        return [error.status_code, error.error]
    return None


report = {}
digest = client.create_blob(sys.argv[2])
report["again"] = client.create_blob(sys.argv[2]) == digest
steps = client.create(
    model="sent",
    files={"m.gguf": digest},
    system="Be brief.",
    license=["MIT", "BSD"],
    parameters={"temperature": 0.5, "stop": ["x", "y"]},
    messages=[{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}],
    stream=True,
)
report["steps"] = [step.status for step in steps]
shown = client.show("sent")
report["shown"] = [shown.details.quantization_level, shown.license, shown.parameters]
quantised = client.create(model="small", from_="sent", quantize="q4_K_M", stream=True)
progress = [step for step in quantised if (step.status or "").startswith("quantizing")]
report["quantised"] = [progress[-1].status, progress[-1].completed == progress[-1].total]
report["level"] = client.show("small").details.quantization_level
options = {"num_predict": 4}
report["answer"] = client.chat("small", [{"role": "user", "content": "Who are you?"}], options=options).done
report["refusals"] = {
    "absolute": refusal(lambda: client.create(model="x", files={"/etc/passwd": digest})),
    "up": refusal(lambda: client.create(model="x", files={"../m.gguf": digest})),
    "no digest": refusal(lambda: client.create(model="x", files={"m.gguf": "sha256:../x"})),
    "nothing": refusal(lambda: client.create(model="x")),
    "adapters": refusal(lambda: client.create(model="x", from_="sent", adapters={"a": digest, "b": digest})),
}
print(json.dumps(report))
