"""A model pushed and pulled back through the `ollama` package, and errors for missing models.

Arguments: host, path of a GGUF file, name at a registry. Prints one JSON object: statuses and results.
"""

import json
import sys

import ollama

host, path, name = sys.argv[1:]
client = ollama.Client(host=host)


def refusal(act):
    try:
        act()
    except ollama.ResponseError as error:
        return [error.status_code, error.error]
    return None


def digest_of(model):
    return next(listed.digest for listed in client.list().models if listed.model == model)


client.create(model=name, files={"m.gguf": client.create_blob(path)})
digests = [digest_of(name)]
statuses, progress = [], {}
for part in client.push(name, insecure=True, stream=True):
    if part.digest:
        progress.setdefault(part.digest, []).append((part.completed or 0, part.total or 0))
    elif not statuses or statuses[-1] != part.status:
        statuses.append(part.status)
again = client.push(name, insecure=True).status
client.delete(name)
back = client.pull(name, insecure=True).status
digests.append(digest_of(name))
chat = {"model": "missing", "messages": [{"role": "user", "content": "hi"}]}
print(json.dumps({
    "statuses": statuses,
    "progress": progress,
    "again": again,
    "back": back,
    "digests": digests,
    "refusals": {
        "push nothing": refusal(lambda: client.push("missing/nothing")),
        "show nothing": refusal(lambda: client.show("missing")),
        "chat with nothing": refusal(lambda: client.chat(**chat)),
        "chat with nothing, streamed": refusal(lambda: list(client.chat(**chat, stream=True))),
        "generate with nothing": refusal(lambda: client.generate("missing", "hi")),
        "pull no name": refusal(lambda: client.pull("a b")),
    },
}))
