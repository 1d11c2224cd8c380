import { expect, it } from "vitest";
import type { Message } from "../api/chats";
import { Streamed } from "./streamed";

const base: Message = { id: "2", parent: "1", role: "assistant", content: "", created_at: "2026-01-01T00:00:00Z", state: "answering", versions: ["2"] };

it("deltas are joined and the thinking is timed", () => {
  const streamed = new Streamed(base, 1000);
  expect(streamed.take({ thinking: "Hm" }, 1100)).toBe(true);
  expect(streamed.take({ thinking: "m." }, 3100)).toBe(true);
  expect(streamed.message()).toMatchObject({ thinking: "Hmm.", thinking_ms: 2000, content: "" });
  expect(streamed.dirty, "a shown delta is not new").toBe(false);
  streamed.take({ text: "A" }, 4100);
  streamed.take({ text: "b" }, 9000);
  expect(streamed.message(), "the clock stops with the first text").toMatchObject({ thinking_ms: 3000, content: "Ab", state: "answering" });
});

it("continued answer starts with its text and time", () => {
  const streamed = new Streamed({ ...base, content: "One", thinking: "x", thinking_ms: 500 }, 0);
  streamed.take({ text: " two" }, 10);
  expect(streamed.message()).toMatchObject({ content: "One two", thinking_ms: 500 });
});

it("lines without a delta are ignored", () => {
  expect(new Streamed(base, 0).take({ done: base }, 1)).toBe(false);
});
