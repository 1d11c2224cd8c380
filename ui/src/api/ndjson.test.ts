import { expect, it } from "vitest";
import { ndjson } from "./ndjson";
import { takeTicket } from "./session";

async function read(chunks: Uint8Array[]): Promise<unknown[]> {
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      chunks.forEach((chunk) => controller.enqueue(chunk));
      controller.close();
    },
  });
  const lines: unknown[] = [];
  for await (const line of ndjson(body)) lines.push(line);
  return lines;
}
const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

it("lines are parsed however the stream is split", async () => {
  const whole = bytes('{"text":"世界"}\n\n{"text":"b"}\r\n{"done":1}');
  for (let at = 1; at < whole.length; at += 1) {
    expect(await read([whole.subarray(0, at), whole.subarray(at)]), `cut at ${at}`).toEqual([{ text: "世界" }, { text: "b" }, { done: 1 }]);
  }
});

it("incomplete last line is dropped", async () => {
  expect(await read([bytes('{"a":1}\n{"b":')])).toEqual([{ a: 1 }]);
});

it("ticket is removed from an address", () => {
  const check = (hash: string, ticket: string | undefined, rest: string): void => expect(takeTicket(hash)).toEqual({ ...(ticket ? { ticket } : {}), rest });
  check("#t=abc_-9", "abc_-9", "");
  check("#t=abc&/chat/1", "abc", "#/chat/1");
  check("#/chat/1", undefined, "#/chat/1");
  check("", undefined, "");
});
