// State of the Cache screen: tiers, cached contexts, and transfers between tiers.
import { cache, type CacheApi } from "../../api/cache";
import type { CacheContext, CacheResponse, CacheTier, TierName } from "../../api/types";
import { Deferred } from "../../components/deferred.svelte";
import { Flows, type Flow } from "./flows";

export type Order = "used" | "tokens" | "size";

/** Shortest time between two loads of the list while statuses arrive. */
const LIST_MS = 2_000;
/** Rates fall to zero without statuses, so they are computed again in this interval. */
const TICK_MS = 1_000;
/** Prefix of owners that are chats. */
const CHAT = "chat:";

/** A context with its label, or all contexts of a chat: after edits and other versions a chat has several. */
export interface Row {
  /** The context; of several, the figures of all: the longest one, the last use, all hits. */
  context: CacheContext;
  /** Ids of the contexts. */
  ids: readonly string[];
  /** A chat's title, a client's name, or none. */
  label?: string;
  kind: "chat" | "client" | "prompt";
  /** Number of other owners that share it. */
  sharers: number;
  nearest: TierName | undefined;
}

export class CachePanel {
  status = $state.raw<CacheResponse | undefined>(undefined);
  contexts = $state.raw<CacheContext[] | undefined>(undefined);
  error = $state.raw<unknown>(undefined);
  filter = $state("");
  order = $state<Order>("used");
  now = $state(0);
  titles = $state.raw<Record<string, string>>({});
  readonly drops = new Deferred();
  readonly #flows = new Flows();
  #listedAt = -Infinity;
  #listing: ReturnType<typeof setTimeout> | undefined;
  #requestedTitles = new Set<string>();

  constructor(
    private readonly api: CacheApi = cache,
    private readonly clock: () => number = () => performance.now(),
  ) {}

  /** Updates rates and lists until the returned function is called. */
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

  /** Applies a status. */
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

  /** Share of reused prompt tokens, since the daemon started and in the last minutes. */
  get share(): number | undefined {
    const { prompt_tokens = 0, cached_tokens = 0 } = this.status ?? {};
    return prompt_tokens > 0 ? Math.min(1, cached_tokens / prompt_tokens) : undefined;
  }

  /** Whether nothing is cached yet. */
  get isEmpty(): boolean {
    return this.contexts?.length === 0 && (this.status?.tiers ?? []).every((tier) => tier.used_bytes === 0);
  }

  get recentShare(): number | undefined {
    return this.#flows.recentShare(this.now);
  }

  /** Bytes of each context in a tier, most recently used first. */
  runs(tier: TierName): number[] {
    return (this.contexts ?? []).map((context) => bytesIn(context, tier)).filter((bytes) => bytes > 0);
  }

  get rows(): Row[] {
    const words = this.filter.trim().toLowerCase();
    const rows = grouped(this.contexts ?? [])
      .map((contexts) => this.#row(contexts))
      .filter(({ context }) => !this.drops.has(context.id))
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

  async pin({ context, ids }: Pick<Row, "context" | "ids">): Promise<void> {
    await this.#do(async () => {
      for (const id of ids) this.#take(await this.api.pin(id, !context.pinned));
    });
  }

  /** Removes a context after the delay for an undo. */
  drop(row: Row, label: string): void {
    this.drops.later(row.context.id, label, () =>
      this.#do(async () => {
        for (const id of row.ids) await this.api.drop(id);
        await this.list();
      }),
    );
  }

  /** Clears one tier, or all. */
  async clear(tier: TierName | undefined): Promise<number | undefined> {
    let chunks: number | undefined;
    await this.#do(async () => {
      chunks = (await this.api.clear(tier ? { tier } : {})).chunks;
      await this.list();
    });
    return chunks;
  }

  #row(contexts: readonly CacheContext[]): Row {
    const context = merged(contexts);
    const chat = context.owners.find((owner) => owner.startsWith(CHAT));
    const first = chat ?? context.owners[0];
    return {
      context,
      ids: contexts.map((one) => one.id),
      label: chat ? this.titles[chat.slice(CHAT.length)] : first,
      kind: chat ? "chat" : first ? "client" : "prompt",
      sharers: Math.max(0, context.owners.length - 1),
      nearest: (["ram", "ssd", "remote"] as const).find((tier) => bytesIn(context, tier) > 0),
    };
  }

  #take(contexts: CacheContext[]): void {
    this.contexts = contexts;
    this.error = undefined;
    const chats = contexts.flatMap((context) => context.owners).filter((owner) => owner.startsWith(CHAT));
    for (const id of new Set(chats.map((owner) => owner.slice(CHAT.length)))) {
      if (this.#requestedTitles.has(id)) continue;
      this.#requestedTitles.add(id);
      // A deleted chat has no title; its context is listed without one.
      this.api.chatTitle(id).then((title) => (this.titles = { ...this.titles, [id]: title }), () => {});
    }
  }

  async #do(work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      this.error = error;
    }
  }
}

/** Contexts by chat; others alone. */
function grouped(contexts: readonly CacheContext[]): CacheContext[][] {
  const groups = new Map<string, CacheContext[]>();
  for (const context of contexts) {
    const key = context.owners.find((owner) => owner.startsWith(CHAT)) ?? `context ${context.id}`;
    groups.set(key, [...(groups.get(key) ?? []), context]);
  }
  return [...groups.values()];
}

/** The figures of several contexts. They share rows, so that sizes do not add up: the largest counts. */
function merged(contexts: readonly CacheContext[]): CacheContext {
  const longest = contexts.reduce((a, b) => (b.tokens > a.tokens ? b : a));
  const most = (figure: (one: CacheContext) => number): number => Math.max(...contexts.map(figure));
  return {
    ...longest,
    bytes: most((one) => one.bytes),
    ram_bytes: most((one) => one.ram_bytes),
    ssd_bytes: most((one) => one.ssd_bytes),
    remote_bytes: most((one) => one.remote_bytes),
    hits: contexts.reduce((sum, one) => sum + one.hits, 0),
    last_used_at: contexts.map((one) => one.last_used_at).reduce((a, b) => (Date.parse(b) > Date.parse(a) ? b : a)),
    pinned: contexts.some((one) => one.pinned),
  };
}

/** Bytes of a context in a tier. */
export function bytesIn(context: CacheContext, tier: TierName): number {
  return { ram: context.ram_bytes, ssd: context.ssd_bytes, remote: context.remote_bytes }[tier];
}

/** i18n key for the state of a tier that is not available; `undefined` for one that is. */
export function healthWords(tier: CacheTier): string | undefined {
  return tier.health === "up" ? undefined : `cache.health_${tier.health}`;
}
