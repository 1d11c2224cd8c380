/**
 * What moves between tiers, from statuses that follow each other.
 *
 * The daemon counts bytes since it started; a rate is how much a count grew over the last seconds. Between two tiers, what goes down
 * is what the farther one stored, and what comes up is what it restored.
 */

/** As `/app/cache` tells a tier, as far as it is needed here. */
export interface Counted {
  tier: string;
  stored_bytes: number;
  restored_bytes: number;
  queued_bytes: number;
}

/** A status, and when it came, in milliseconds of a clock that never goes back. */
interface Sample {
  at: number;
  tiers: Map<string, Counted>;
  prompt: number;
  cached: number;
}

/** Bytes per second to a tier and from it, and what waits to go there. */
export interface Flow {
  storedPerSecond: number;
  restoredPerSecond: number;
  queuedBytes: number;
}

/** Over so long a rate is taken, so long a share of tokens remembered. */
const RATE_MS = 3_000;
const SHARE_MS = 300_000;

/** Statuses of the last minutes. */
export class Flows {
  private samples: Sample[] = [];

  /** Adds a status. A count that went back tells of a new daemon: what was before it says nothing any more. */
  add(at: number, status: { tiers: Counted[]; prompt_tokens: number; cached_tokens: number }): void {
    const last = this.samples[this.samples.length - 1];
    if (last && status.prompt_tokens < last.prompt) this.samples = [];
    const tiers = new Map(status.tiers.map((tier) => [tier.tier, tier]));
    this.samples.push({ at, tiers, prompt: status.prompt_tokens, cached: status.cached_tokens });
    const keep = this.samples.findLastIndex((sample) => sample.at <= at - SHARE_MS);
    if (keep > 0) this.samples.splice(0, keep);
  }

  /** What moves to and from a tier now. Statuses come only when something changed, so that silence means that nothing moves. */
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

  /** The share of prompt tokens of the last minutes that were remembered; none where none were asked while somebody looked. */
  recentShare(now: number): number | undefined {
    const [from, to] = [this.at(now - SHARE_MS), this.samples[this.samples.length - 1]];
    if (!from || !to || to.prompt <= from.prompt) return undefined;
    return Math.min(1, Math.max(0, to.cached - from.cached) / (to.prompt - from.prompt));
  }

  /** The last status at a moment, else the first there is. */
  private at(moment: number): Sample | undefined {
    return this.samples.findLast((sample) => sample.at <= moment) ?? this.samples[0];
  }
}
