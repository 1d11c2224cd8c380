// What the interface computes from the usage of an answer.
import type { TierTokens, Usage } from "./types";

/** Tokens per second of the answer; 0 without a time. */
export function speed(usage: Usage): number {
  return usage.answer_ns > 0 ? (usage.answer_tokens * 1e9) / usage.answer_ns : 0;
}

/** Cached tokens that were restored from tiers, fastest tier first. The others were in pages of the loaded model. */
export function restored(usage: Usage): TierTokens[] {
  const all: TierTokens[] = [
    { tier: "ram", tokens: usage.ram_tokens },
    { tier: "ssd", tokens: usage.ssd_tokens },
    { tier: "remote", tokens: usage.remote_tokens },
  ];
  return all.filter(({ tokens }) => tokens > 0);
}
