// Lines that reach the server from other programs, with its real address and a model that is here.

export interface Snippet {
  id: "curl" | "openai" | "python" | "env";
  text: string;
}

/** Ready to be pasted; `model` has the characters that names of models may have, and none that a shell would read. */
export function snippets(url: string, model: string): Snippet[] {
  const body = (fields: object) => JSON.stringify(fields);
  const messages = [{ role: "user", content: "Hello" }];
  return [
    { id: "curl", text: `curl ${url}/api/chat -d '${body({ model, messages })}'` },
    {
      id: "openai",
      text: `curl ${url}/v1/chat/completions -H 'Content-Type: application/json' -d '${body({ model, messages })}'`,
    },
    {
      id: "python",
      text: [
        "from openai import OpenAI",
        `client = OpenAI(base_url=${JSON.stringify(`${url}/v1`)}, api_key="none")`,
        `answer = client.chat.completions.create(model=${JSON.stringify(model)}, messages=${body(messages)})`,
        "print(answer.choices[0].message.content)",
      ].join("\n"),
    },
    { id: "env", text: `OLLAMA_HOST=${url}` },
  ];
}
