/**
 * Transfer rates between tiers, from successive statuses.
 *
 * The daemon counts bytes since its start; a rate is the growth of a count over the last seconds. Between two tiers, the slower one's
 * stored bytes move down and its restored bytes move up.
 */

/** The fields of a tier of `/app/cache` that are needed here. */
export interface Counted {
  tier: string;
  stored_bytes: number;
  restored_bytes: number;
  queued_bytes: number;
}

/** A status, and its time in milliseconds of a monotonic clock. */
interface Sample {
  at: number;
  tiers: Map<string, Counted>;
  prompt: number;
  cached: number;
}

/** Bytes per second to and from a tier, and bytes waiting to be stored. */
export interface Flow {
  storedPerSecond: number;
  restoredPerSecond: number;
  queuedBytes: number;
}

/** Window of a rate, and of the share of reused tokens. */
const RATE_MS = 3_000;
const SHARE_MS = 300_000;

/** Statuses of the last minutes. */
export class Flows {
  private samples: Sample[] = [];

  /** Adds a status. A count that decreases means that the daemon has restarted, so older statuses are dropped. */
  add(at: number, status: { tiers: Counted[]; prompt_tokens: number; cached_tokens: number }): void {
    const last = this.samples[this.samples.length - 1];
    if (last && status.prompt_tokens < last.prompt) this.samples = [];
    const tiers = new Map(status.tiers.map((tier) => [tier.tier, tier]));
    this.samples.push({ at, tiers, prompt: status.prompt_tokens, cached: status.cached_tokens });
    const keep = this.samples.findLastIndex((sample) => sample.at <= at - SHARE_MS);
    if (keep > 0) this.samples.splice(0, keep);
  }

  /** Current rates of a tier. Statuses are sent on changes only, so silence means a rate of zero. */
  of(tier: string, now: number): Flow {
    const newest = this.samples[this.samples.length - 1];
    const current = newest?.tiers.get(tier);
    const oldest = this.at(now - RATE_MS);
    const before = oldest?.tiers.get(tier);
    const queuedBytes = current?.queued_bytes ?? 0;
    if (!current || !before) return { storedPerSecond: 0, restoredPerSecond: 0, queuedBytes };
    const rate = (to: number, from: number) => Math.max(0, to - from) / (RATE_MS / 1000);
    return {
      storedPerSecond: rate(current.stored_bytes, before.stored_bytes),
      restoredPerSecond: rate(current.restored_bytes, before.restored_bytes),
      queuedBytes,
    };
  }

  /** Share of reused prompt tokens in the last minutes; `undefined` without prompts. */
  recentShare(now: number): number | undefined {
    const [from, to] = [this.at(now - SHARE_MS), this.samples[this.samples.length - 1]];
    if (!from || !to || to.prompt <= from.prompt) return undefined;
    return Math.min(1, Math.max(0, to.cached - from.cached) / (to.prompt - from.prompt));
  }

  /** The last status at a time, or else the first one. */
  private at(moment: number): Sample | undefined {
    return this.samples.findLast((sample) => sample.at <= moment) ?? this.samples[0];
  }
}
