// Cache use of an answer in one line: the tier, the time and the estimated time without cache; or why there was a miss. Only what
// saved or cost a noticeable time has a badge.
import type { Usage } from "../api/chats";
import { restored } from "../api/usage";
import type { Tier } from "../components";

/** Savings and misses of less time are in the statistics of the answer only. */
const MIN_BADGE_MS = 1_000;

export type Resume =
  | { kind: "kept"; tier: Tier; cached: number; prompt: number; restoreMs: number; insteadMs: number }
  | { kind: "again"; prompt: number; reason: string }
  | undefined;

/** Estimated time that cached tokens saved. Those in pages of the loaded model would have taken as long as the computed ones. */
function savedMs(usage: Usage): number {
  const inTiers = restored(usage).reduce((sum, tier) => sum + tier.tokens, 0);
  const computed = usage.prompt_tokens - usage.cached_tokens;
  const inPagesMs = computed > 0 ? (usage.prompt_ms / computed) * Math.max(0, usage.cached_tokens - inTiers) : 0;
  return inPagesMs + usage.instead_of_ms - usage.restore_ms;
}

export function resume(usage: Usage): Resume {
  const { prompt_tokens: prompt, cached_tokens: cached } = usage;
  const reason = usage.recomputed;
  if (cached > 0 && savedMs(usage) >= MIN_BADGE_MS) {
    const tiers = restored(usage);
    // The tier with most of the tokens determines the time.
    const all = tiers.reduce((sum, tier) => sum + tier.tokens, 0);
    const main = all * 2 < cached ? undefined : tiers.toSorted((a, b) => b.tokens - a.tokens)[0];
    return { kind: "kept", tier: main?.tier ?? "device", cached, prompt, restoreMs: usage.restore_ms, insteadMs: usage.instead_of_ms };
  }
  if (reason !== undefined && reason !== "whole" && cached * 2 < prompt && usage.prompt_ms >= MIN_BADGE_MS) return { kind: "again", prompt, reason };
  return undefined;
}
