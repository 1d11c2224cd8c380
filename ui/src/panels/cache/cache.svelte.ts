// What the Cache screen shows and does: the tiers as the daemon tells of them, kept contexts, and what moves between tiers.
import { cache, type CacheApi } from "../../api/cache";
import type { CacheContext, CacheResponse, CacheTier, TierName } from "../../api/types";
import { Deferred } from "../../components/deferred.svelte";
import { Flows, type Flow } from "./flows";
import { said } from "../../i18n";

export type Order = "used" | "tokens" | "size";

/** The list is read again at most so often while statuses come. */
const LIST_MS = 2_000;
/** Rates fall to zero when nothing comes, so that they are computed anew while somebody looks. */
const TICK_MS = 1_000;
/** What owners of our own chats begin with. */
const CHAT = "chat:";

/** A context with the words that it is listed under. */
export interface Row {
  context: CacheContext;
  /** A chat's title, a client's name for it, or none. */
  label?: string;
  kind: "chat" | "client" | "prompt";
  /** Others that share it, besides the first. */
  sharers: number;
  nearest: TierName | undefined;
}

export class CachePanel {
  status = $state.raw<CacheResponse | undefined>(undefined);
  contexts = $state.raw<CacheContext[] | undefined>(undefined);
  error = $state<string | undefined>(undefined);
  filter = $state("");
  order = $state<Order>("used");
  now = $state(0);
  titles = $state.raw<Record<string, string>>({});
  readonly drops = new Deferred();
  readonly #flows = new Flows();
  #listedAt = -Infinity;
  #listing: ReturnType<typeof setTimeout> | undefined;
  #asked = new Set<string>();

  constructor(
    private readonly api: CacheApi = cache,
    private readonly clock: () => number = () => performance.now(),
  ) {}

  /** Looks after time and lists until the returned function is called. */
  start(): () => void {
    this.now = this.clock();
    const tick = setInterval(() => (this.now = this.clock()), TICK_MS);
    void this.list();
    return () => {
      clearInterval(tick);
      clearTimeout(this.#listing);
      void this.drops.flush();
    };
  }

  /** Hears a status. */
  hear(status: CacheResponse): void {
    this.now = this.clock();
    this.status = status;
    this.#flows.add(this.now, status);
    if (this.#listing !== undefined) return;
    const wait = Math.max(0, this.#listedAt + LIST_MS - this.now);
    this.#listing = setTimeout(() => {
      this.#listing = undefined;
      void this.list();
    }, wait);
  }

  async list(): Promise<void> {
    this.#listedAt = this.clock();
    await this.#do(async () => this.#take(await this.api.contexts()));
  }

  flow(tier: string): Flow {
    return this.#flows.of(tier, this.now);
  }

  /** Share of prompt tokens that were remembered, since the daemon started and in the last minutes. */
  get share(): number | undefined {
    const { prompt_tokens = 0, cached_tokens = 0 } = this.status ?? {};
    return prompt_tokens > 0 ? Math.min(1, cached_tokens / prompt_tokens) : undefined;
  }

  get recentShare(): number | undefined {
    return this.#flows.recentShare(this.now);
  }

  /** Bytes of each context in a tier, those used last first: the runs of its stone. */
  runs(tier: TierName): number[] {
    return (this.contexts ?? []).map((context) => held(context, tier)).filter((bytes) => bytes > 0);
  }

  get rows(): Row[] {
    const words = this.filter.trim().toLowerCase();
    const rows = (this.contexts ?? [])
      .filter((context) => !this.drops.has(context.id))
      .map((context) => this.#row(context))
      .filter(({ context, label }) => {
        const text = [label, context.model, ...context.owners].join(" ").toLowerCase();
        return !words || text.includes(words);
      });
    const by: Record<Order, (row: Row) => number> = {
      used: ({ context }) => Date.parse(context.last_used_at),
      tokens: ({ context }) => context.tokens,
      size: ({ context }) => context.bytes,
    };
    return rows.sort((a, b) => by[this.order](b) - by[this.order](a));
  }

  async pin(context: CacheContext): Promise<void> {
    await this.#do(async () => this.#take(await this.api.pin(context.id, !context.pinned)));
  }

  /** Drops a context when the time to think again is over. */
  drop(row: Row, label: string): void {
    this.drops.later(row.context.id, label, () =>
      this.#do(async () => {
        await this.api.drop(row.context.id);
        await this.list();
      }),
    );
  }

  /** Empties a tier, or all. */
  async clear(tier: TierName | undefined): Promise<number | undefined> {
    let chunks: number | undefined;
    await this.#do(async () => {
      chunks = (await this.api.clear(tier ? { tier } : {})).chunks;
      await this.list();
    });
    return chunks;
  }

  #row(context: CacheContext): Row {
    const chat = context.owners.find((owner) => owner.startsWith(CHAT));
    const first = chat ?? context.owners[0];
    return {
      context,
      label: chat ? this.titles[chat.slice(CHAT.length)] : first,
      kind: chat ? "chat" : first ? "client" : "prompt",
      sharers: Math.max(0, context.owners.length - 1),
      nearest: (["ram", "ssd", "remote"] as const).find((tier) => held(context, tier) > 0),
    };
  }

  #take(contexts: CacheContext[]): void {
    this.contexts = contexts;
    this.error = undefined;
    const chats = contexts.flatMap((context) => context.owners).filter((owner) => owner.startsWith(CHAT));
    for (const id of new Set(chats.map((owner) => owner.slice(CHAT.length)))) {
      if (this.#asked.has(id)) continue;
      this.#asked.add(id);
      // A chat that is gone has no title; its context is listed all the same.
      this.api.chatTitle(id).then((title) => (this.titles = { ...this.titles, [id]: title }), () => {});
    }
  }

  async #do(work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      this.error = said(error);
    }
  }
}

/** Bytes of a context in a tier. */
export function held(context: CacheContext, tier: TierName): number {
  return { ram: context.ram_bytes, ssd: context.ssd_bytes, remote: context.remote_bytes }[tier];
}

/** What a tier that is not up means for its user, as a key of words; none for one that is. */
export function healthWords(tier: CacheTier): string | undefined {
  return tier.health === "up" ? undefined : `cache.health_${tier.health}`;
}
