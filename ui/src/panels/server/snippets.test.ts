import { expect, it } from "vitest";
import { snippets } from "./snippets";

it("has the address and the model in each, and bodies that are JSON", () => {
  const all = snippets("http://127.0.0.1:4242", "qwen3:0.6b");
  for (const { id, text } of all) {
    expect(text, id).toContain("http://127.0.0.1:4242");
    const body = /-d '(.*)'$/.exec(text)?.[1];
    if (body) expect(JSON.parse(body).model, id).toBe("qwen3:0.6b");
  }
  expect(all.map((one) => one.id)).toEqual(["curl", "openai", "python", "env"]);
});
