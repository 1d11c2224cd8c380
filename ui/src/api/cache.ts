// `/app/cache`: the tiers of cached prompts.
import { get, post } from "./client";
import { live } from "./live.svelte";
import type {
  CacheClear,
  CacheContext,
  CacheContexts,
  CacheDeleted,
  CacheFsck,
  CacheResponse,
  CacheTested,
  CacheTestRequest,
  CacheTrace,
  CacheTraceRequest,
} from "./types";

/** The cache status, whenever it changes. */
export const cacheStatus = () => live<CacheResponse>("/app/cache/events");

export const cache = {
  contexts: async (): Promise<CacheContext[]> => (await get<CacheContexts>("/app/cache/contexts")).contexts,
  pin: async (context: string, pinned: boolean): Promise<CacheContext[]> =>
    (await post<CacheContexts>(pinned ? "/app/cache/pin" : "/app/cache/unpin", { context })).contexts,
  drop: (context: string) => post<CacheDeleted>("/app/cache/drop", { context }),
  clear: (which: CacheClear) => post<CacheDeleted>("/app/cache/clear", which),
  trace: (prompt: CacheTraceRequest) => post<CacheTrace>("/app/cache/trace", prompt),
  /** Counts the tokens of a text; loads the model for that. */
  countTokens: async (model: string, text: string, options: Record<string, unknown>): Promise<number> =>
    (await post<CacheTrace>("/app/cache/trace", { model, messages: [{ role: "user", content: text }], raw: true, options })).tokens,
  check: () => get<CacheFsck>("/app/cache/fsck"),
  test: (places: CacheTestRequest) => post<CacheTested>("/app/cache/test", places),
  /** The title of a chat that a context belongs to. */
  chatTitle: async (id: string): Promise<string> => (await get<{ title: string }>(`/app/chats/${encodeURIComponent(id)}`)).title,
};

export type CacheApi = typeof cache;
