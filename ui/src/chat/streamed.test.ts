import { describe, expect, it } from "vitest";
import type { Call, Message, Step } from "../api/chats";
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

describe("steps", () => {
  const call: Call = { id: "1", function: "files_read", origin: "files", tool: "read", arguments: { path: "a" }, state: "waiting" };
  const step = (state: Call["state"], content = "Let me look."): Step => ({ content, calls: [{ ...call, state }] });

  it("new step takes over the text, and the answer begins again", () => {
    const streamed = new Streamed(base, 0);
    streamed.take({ thinking: "Hm" }, 100);
    streamed.take({ text: "Let me look." }, 2100);
    expect(streamed.take({ step: { index: 0, step: step("waiting") } }, 2200)).toBe(true);
    const shown = streamed.message();
    expect([shown.content, shown.thinking, shown.thinking_ms, shown.steps?.length]).toEqual(["", undefined, undefined, 1]);
    streamed.take({ text: "It is" }, 9000);
    expect(streamed.message()).toMatchObject({ content: "It is", steps: [{ content: "Let me look." }] });
  });

  it("changed step keeps the text after it", () => {
    const streamed = new Streamed({ ...base, content: "And", thinking: "x", thinking_ms: 5, steps: [step("running")] }, 0);
    streamed.take({ step: { index: 0, step: step("done") } }, 10);
    expect(streamed.message()).toMatchObject({ content: "And", thinking: "x", steps: [{ calls: [{ state: "done" }] }] });
    streamed.take({ step: { index: 1, step: step("waiting", "And") } }, 20);
    const shown = streamed.message();
    expect(shown.steps?.map((one) => one.calls[0]?.state)).toEqual(["done", "waiting"]);
    expect([shown.content, shown.thinking], "the second step has them").toEqual(["", undefined]);
  });

  it("thinking after a step is timed from its own begin", () => {
    const streamed = new Streamed(base, 0);
    streamed.take({ thinking: "a" }, 0);
    streamed.take({ step: { index: 0, step: step("done") } }, 50_000);
    streamed.take({ thinking: "b" }, 60_000);
    streamed.take({ thinking: "c" }, 61_000);
    expect(streamed.message()).toMatchObject({ thinking: "bc", thinking_ms: 1000 });
  });
});
