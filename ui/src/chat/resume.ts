// Cache use of an answer in one line: the tier, the time and the estimated time without cache; or why there was a miss.
import type { MessageStats } from "../api/chats";
import type { Tier } from "../components";

/** Shorter prompts are computed faster than restored: they have no badge. */
const MIN_BADGE_TOKENS = 32;

export type Resume =
  | { kind: "kept"; tier: Tier; cached: number; prompt: number; restoreMs: number; insteadMs: number }
  | { kind: "again"; prompt: number; reason: string }
  | undefined;

export function resume(stats: MessageStats): Resume {
  const { prompt_tokens: prompt, cached_tokens: cached } = stats;
  const reason = stats.recomputed;
  if (cached >= MIN_BADGE_TOKENS) {
    const tiers = stats.tiers ?? [];
    // The tier with most of the tokens determines the time.
    const restored = tiers.reduce((sum, tier) => sum + tier.tokens, 0);
    const main = restored * 2 < cached ? undefined : tiers.toSorted((a, b) => b.tokens - a.tokens)[0];
    return { kind: "kept", tier: main?.tier ?? "device", cached, prompt, restoreMs: stats.restore_ms, insteadMs: stats.instead_of_ms };
  }
  if (reason !== undefined && reason !== "whole" && prompt >= MIN_BADGE_TOKENS) return { kind: "again", prompt, reason };
  return undefined;
}
