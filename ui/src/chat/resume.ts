// Cache use of an answer in one line: the tier, the time and the estimated time without cache; or why there was a miss.
import type { Usage } from "../api/chats";
import { restored } from "../api/usage";
import type { Tier } from "../components";

/** Shorter prompts are computed faster than restored: they have no badge. */
const MIN_BADGE_TOKENS = 32;

export type Resume =
  | { kind: "kept"; tier: Tier; cached: number; prompt: number; restoreMs: number; insteadMs: number }
  | { kind: "again"; prompt: number; reason: string }
  | undefined;

export function resume(usage: Usage): Resume {
  const { prompt_tokens: prompt, cached_tokens: cached } = usage;
  const reason = usage.recomputed;
  if (cached >= MIN_BADGE_TOKENS) {
    const tiers = restored(usage);
    // The tier with most of the tokens determines the time.
    const all = tiers.reduce((sum, tier) => sum + tier.tokens, 0);
    const main = all * 2 < cached ? undefined : tiers.toSorted((a, b) => b.tokens - a.tokens)[0];
    return { kind: "kept", tier: main?.tier ?? "device", cached, prompt, restoreMs: usage.restore_ms, insteadMs: usage.instead_of_ms };
  }
  if (reason !== undefined && reason !== "whole" && prompt >= MIN_BADGE_TOKENS) return { kind: "again", prompt, reason };
  return undefined;
}
