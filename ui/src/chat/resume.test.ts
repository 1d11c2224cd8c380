import { expect, it } from "vitest";
import type { Usage } from "../api/chats";
import { resume } from "./resume";

const usage = (more: Partial<Usage>): Usage => ({
  prompt_tokens: 12_380,
  cached_tokens: 0,
  ram_tokens: 0,
  ssd_tokens: 0,
  remote_tokens: 0,
  restore_ms: 0,
  instead_of_ms: 0,
  load_ms: 0,
  prompt_ms: 0,
  first_token_ms: 200,
  answer_tokens: 10,
  answer_ns: 250_000_000,
  total_ms: 450,
  length_reached: false,
  ...more,
});

it("main tier and saved time are reported", () => {
  const kept = resume(usage({ cached_tokens: 12_304, ram_tokens: 304, ssd_tokens: 12_000, restore_ms: 180, instead_of_ms: 11_000 }));
  expect(kept).toEqual({ kind: "kept", tier: "ssd", cached: 12_304, prompt: 12_380, restoreMs: 180, insteadMs: 11_000 });
});

it("pages of the loaded model count as device", () => {
  expect(resume(usage({ cached_tokens: 12_304, prompt_ms: 60 }))).toMatchObject({ tier: "device" });
  const mostly = resume(usage({ cached_tokens: 12_304, ssd_tokens: 256, prompt_ms: 60 }));
  expect(mostly, "a small part from another tier is not the main one").toMatchObject({ tier: "device" });
});

it("savings of less than a second have no badge", () => {
  expect(resume(usage({ cached_tokens: 12_304, ssd_tokens: 12_304, restore_ms: 180, instead_of_ms: 1_180 }))).toMatchObject({ kind: "kept" });
  expect(resume(usage({ cached_tokens: 12_304, ssd_tokens: 12_304, restore_ms: 180, instead_of_ms: 1_179 }))).toBeUndefined();
  expect(resume(usage({ prompt_tokens: 330, cached_tokens: 312, prompt_ms: 20 })), "18 tokens took 20 ms").toBeUndefined();
  expect(resume(usage({ prompt_tokens: 330, cached_tokens: 330, recomputed: "whole" }))).toBeUndefined();
});

it("miss has a reason; first and fast prompts have no badge", () => {
  expect(resume(usage({ recomputed: "changed", prompt_ms: 9_000 }))).toEqual({ kind: "again", prompt: 12_380, reason: "changed" });
  expect(resume(usage({ prompt_ms: 9_000 }))).toBeUndefined();
  expect(resume(usage({ prompt_tokens: 120, cached_tokens: 8, recomputed: "changed", prompt_ms: 300 }))).toBeUndefined();
});
