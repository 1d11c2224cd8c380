"""Models listed, copied, created and deleted through the `ollama` package.

Argument: host. Prints one JSON object: the names and digests after each step, and the status and text of each error.
"""

import json
import sys

import ollama

client = ollama.Client(host=sys.argv[1])


def listed():
    return {model.model: model.digest for model in client.list().models}


def refusal(act):
    try:
        act()
    except ollama.ResponseError as error:
        return [error.status_code, error.error]
    return None


report = {"before": listed()}
report["copy"] = client.copy("pebble", "Guide").status
report["copied"] = listed()
report["again"] = client.copy("guide", "hf.co/Me/Guide-GGUF:Q8_0").status
report["twice"] = listed()
report["create"] = client.create(model="mine", from_="guide", system="Be brief.").status
report["answer"] = client.chat("mine", [{"role": "user", "content": "Who are you?"}], options={"num_predict": 4}).done
report["running"] = [model.model for model in client.ps().models]
report["shown"] = client.show("guide").details.family
report["refusals"] = {
    "copy of nothing": refusal(lambda: client.copy("missing", "x")),
    "copy of no name": refusal(lambda: client.copy("a b", "x")),
    "copy to no name": refusal(lambda: client.copy("guide", "../x")),
    "delete nothing": refusal(lambda: client.delete("missing")),
    "delete no name": refusal(lambda: client.delete("../x")),
}
for name in ["GUIDE", "hf.co/me/guide-gguf:q8_0", "mine"]:
    report["delete " + name] = client.delete(name).status
report["after"] = listed()
print(json.dumps(report))
