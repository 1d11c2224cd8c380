import { expect, it } from "vitest";
import { snippets } from "./snippets";

it("snippets name the address and the model, and use only routes that the daemon serves", () => {
  const all = snippets("http://127.0.0.1:4242", "qwen3:0.6b");
  for (const { id, text } of all) {
    expect(text, id).toContain("http://127.0.0.1:4242");
    expect(text, `${id}: the OpenAI API is not served`).not.toContain("/v1");
    const body = /-d '(.*)'$/.exec(text)?.[1];
    if (body) expect(JSON.parse(body).model, id).toBe("qwen3:0.6b");
  }
  expect(all.map((one) => one.id)).toEqual(["curl", "env"]);
});
