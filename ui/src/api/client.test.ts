import { afterEach, expect, it, vi } from "vitest";

vi.mock("../platform", () => ({ platform: { kind: "tauri", server: () => Promise.resolve({ address: "http://a", token: "t" }) } }));

import { get, stream } from "./client";

/** The daemon's response to every request. */
const answers = (body: BodyInit, status = 200): void => void vi.stubGlobal("fetch", () => Promise.resolve(new Response(body, { status })));
afterEach(() => vi.unstubAllGlobals());

const BODY = { error: "model 'x' not found", code: "model_not_found", params: { model: "x" } };

async function read(lines: unknown[]): Promise<void> {
  for await (const line of stream("GET", "/app/x")) lines.push(line);
}

it("refused request has the code and the parameters of the error", async () => {
  answers(JSON.stringify(BODY), 404);
  await expect(get("/app/x")).rejects.toMatchObject({ status: 404, message: BODY.error, code: BODY.code, params: BODY.params });
});

it("response without a code has no parameters", async () => {
  answers("Bad Gateway", 502);
  await expect(get("/app/x")).rejects.toMatchObject({ status: 502, message: "Bad Gateway", code: undefined, params: {} });
});

it("stream that ends with an error throws it after its lines", async () => {
  answers(`{"completed":1}\n${JSON.stringify(BODY)}\n`);
  const lines: unknown[] = [];
  await expect(read(lines)).rejects.toMatchObject({ offline: false, code: BODY.code, params: BODY.params });
  expect(lines).toEqual([{ completed: 1 }]);
});

it("failed answer is a line, not the error of its stream", async () => {
  const line = { failed: { error: BODY, message: {} } };
  answers(`${JSON.stringify(line)}\n`);
  const lines: unknown[] = [];
  await read(lines);
  expect(lines).toEqual([line]);
});

it("stream with a broken connection is offline", async () => {
  answers(new ReadableStream({ start: (controller) => controller.error(new TypeError("network error")) }));
  await expect(read([])).rejects.toMatchObject({ offline: true });
});
