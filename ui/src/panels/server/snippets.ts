// Examples for other programs, with the server's address and an installed model.

export interface Snippet {
  id: "curl" | "env";
  text: string;
}

/** Examples to paste; the characters of model names need no quoting in a shell. */
export function snippets(url: string, model: string): Snippet[] {
  const body = (fields: object) => JSON.stringify(fields);
  const messages = [{ role: "user", content: "Hello" }];
  return [
    { id: "curl", text: `curl ${url}/api/chat -d '${body({ model, messages })}'` },
    { id: "env", text: `OLLAMA_HOST=${url}` },
  ];
}
