// Totals of reused prompt tokens, for the status bar and the cache of a chat.
import { get, post } from "./client";

export interface CacheContext {
  id: string;
  owners: string[];
  model?: string;
  tokens: number;
  bytes: number;
  ram_bytes: number;
  ssd_bytes: number;
  remote_bytes: number;
  hits: number;
  last_used_at: string;
  pinned: boolean;
}

interface Totals {
  prompt_tokens: number;
  cached_tokens: number;
  tiers: { tier: string; used_bytes: number }[];
}

class CacheTotals {
  now = $state.raw<Totals | undefined>(undefined);

  async refresh(): Promise<void> {
    this.now = await get<Totals>("/app/cache");
  }
}

export const cacheTotals = new CacheTotals();

/** Cached contexts of one chat. */
export async function keptOfChat(chat: string): Promise<CacheContext[]> {
  const { contexts } = await get<{ contexts: CacheContext[] }>("/app/cache/contexts");
  return contexts.filter((context) => context.owners.includes(`chat:${chat}`));
}

export const pinContext = (context: string, pinned: boolean): Promise<unknown> => post(`/app/cache/${pinned ? "pin" : "unpin"}`, { context });
