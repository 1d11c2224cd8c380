import { expect, it } from "vitest";
import type { MessageStats } from "../api/chats";
import { resume } from "./resume";

const stats = (more: Partial<MessageStats>): MessageStats => ({
  prompt_tokens: 12_380,
  cached_tokens: 0,
  restore_ms: 0,
  instead_of_ms: 0,
  load_ms: 0,
  first_token_ms: 200,
  answer_tokens: 10,
  tokens_per_second: 40,
  length_reached: false,
  ...more,
});

it("main tier and saved time are reported", () => {
  const kept = resume(stats({ cached_tokens: 12_304, tiers: [{ tier: "ram", tokens: 304 }, { tier: "ssd", tokens: 12_000 }], restore_ms: 180, instead_of_ms: 11_000 }));
  expect(kept).toEqual({ kind: "kept", tier: "ssd", cached: 12_304, prompt: 12_380, restoreMs: 180, insteadMs: 11_000 });
});

it("pages of the loaded model count as device", () => {
  expect(resume(stats({ cached_tokens: 12_304 }))).toMatchObject({ tier: "device" });
  const mostly = resume(stats({ cached_tokens: 12_304, tiers: [{ tier: "ssd", tokens: 256 }] }));
  expect(mostly, "a small part from another tier is not the main one").toMatchObject({ tier: "device" });
});

it("miss has a reason; first and short prompts have no badge", () => {
  expect(resume(stats({ recomputed: "changed" }))).toEqual({ kind: "again", prompt: 12_380, reason: "changed" });
  expect(resume(stats({}))).toBeUndefined();
  expect(resume(stats({ prompt_tokens: 12, cached_tokens: 8, recomputed: "changed" }))).toBeUndefined();
});
