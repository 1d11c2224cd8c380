import { beforeEach, expect, it, vi } from "vitest";
import type { CacheApi } from "../../api/cache";
import type { CacheContext, CacheResponse } from "../../api/types";
import { CachePanel, healthWords } from "./cache.svelte";
import { errorText } from "../../i18n";

const context = (id: string, part: Partial<CacheContext> = {}): CacheContext => ({
  id, owners: [], tokens: 10, bytes: 100, ram_bytes: 0, ssd_bytes: 100, remote_bytes: 0, hits: 0,
  last_used_at: "2026-01-01T00:00:00Z", pinned: false, ...part,
});
const status = (prompt: number, cached: number): CacheResponse => ({
  tiers: [], prompt_tokens: prompt, cached_tokens: cached, saved_today_ms: 0, cut_short: 0, dropped: 0,
});

function panel(kept: CacheContext[], part: Partial<CacheApi> = {}) {
  const calls: string[] = [];
  const api = {
    contexts: async () => (calls.push("contexts"), kept),
    pin: async (id: string, pinned: boolean) => (calls.push(`pin ${id} ${pinned}`), kept),
    drop: async (id: string) => (calls.push(`drop ${id}`), { chunks: 1, left: 0 }),
    clear: async () => ({ chunks: 3, left: 0 }),
    chatTitle: async (id: string) => `Title of ${id}`,
    ...part,
  } as CacheApi;
  return { calls, panel: new CachePanel(api, () => Date.now()) };
}

beforeEach(() => void vi.useFakeTimers());

it("contexts are listed with their label and fastest tier", async () => {
  const { panel: cache } = panel([
    context("a", { owners: ["chat:7", "chat:8"], ram_bytes: 5, tokens: 1 }),
    context("b", { owners: ["vscode"], tokens: 3, last_used_at: "2026-02-01T00:00:00Z" }),
    context("c", { ssd_bytes: 0, remote_bytes: 5, tokens: 2 }),
  ]);
  await cache.list();
  await vi.advanceTimersByTimeAsync(0);
  const rows = cache.rows.map((row) => `${row.context.id} ${row.kind} ${row.label} ${row.sharers} ${row.nearest}`);
  expect(rows).toEqual(["b client vscode 0 ssd", "a chat Title of 7 1 ram", "c prompt undefined 0 remote"]);
  cache.order = "tokens";
  expect(cache.rows.map((row) => row.context.id)).toEqual(["b", "c", "a"]);
  cache.filter = "TITLE of";
  expect(cache.rows.map((row) => row.context.id)).toEqual(["a"]);
  expect(cache.runs("ssd")).toEqual([100, 100]);
});

it("removed context is deleted after the undo delay", async () => {
  const { panel: cache, calls } = panel([context("a"), context("b")]);
  await cache.list();
  for (const row of cache.rows) cache.drop(row, row.context.id);
  expect(cache.rows, "hidden at once").toEqual([]);
  cache.drops.takeBack("b");
  expect(cache.rows.map((row) => row.context.id)).toEqual(["b"]);
  await vi.advanceTimersByTimeAsync(10_000);
  expect(calls.filter((call) => call.startsWith("drop"))).toEqual(["drop a"]);
});

it("contexts of one chat are one row", async () => {
  const { panel: cache, calls } = panel([
    context("a", { owners: ["chat:7"], tokens: 5, bytes: 50, hits: 2, ram_bytes: 7, ssd_bytes: 0, pinned: true }),
    context("b", { owners: ["chat:7", "chat:8"], tokens: 9, bytes: 90, hits: 1, last_used_at: "2026-02-01T00:00:00Z" }),
    context("c", { owners: ["vscode"] }),
    context("d", { owners: ["vscode"] }),
  ]);
  await cache.list();
  const row = cache.rows[0];
  expect(cache.rows.map((one) => one.ids.join())).toEqual(["a,b", "c", "d"]);
  expect(row?.context).toMatchObject({ tokens: 9, bytes: 90, ram_bytes: 7, hits: 3, last_used_at: "2026-02-01T00:00:00Z", pinned: true });
  cache.drop(row!, "chat");
  expect(cache.rows.length).toBe(2);
  await vi.advanceTimersByTimeAsync(10_000);
  expect(calls.filter((call) => call.startsWith("drop"))).toEqual(["drop a", "drop b"]);
  await cache.pin(row!);
  expect(calls.filter((call) => call.startsWith("pin"))).toEqual(["pin a false", "pin b false"]);
});

it("cache is empty only without contexts and used bytes", async () => {
  const { panel: cache } = panel([]);
  expect(cache.isEmpty, "no answer yet").toBe(false);
  await cache.list();
  expect(cache.isEmpty).toBe(true);
  cache.hear({ ...status(1, 0), tiers: [{ tier: "ram", used_bytes: 5 } as CacheResponse["tiers"][0]] });
  expect(cache.isEmpty).toBe(false);
});

it("list is loaded at most every two seconds", async () => {
  const { panel: cache, calls } = panel([]);
  await cache.list();
  for (let at = 0; at < 40; at += 1) {
    cache.hear(status(at, at));
    await vi.advanceTimersByTimeAsync(100);
  }
  expect(calls.length, "4 s of statuses").toBeLessThanOrEqual(4);
  expect(calls.length).toBeGreaterThan(1);
});

it("shares exist only after prompts", async () => {
  const { panel: cache } = panel([]);
  expect(cache.share).toBeUndefined();
  cache.hear(status(0, 0));
  expect(cache.share).toBeUndefined();
  cache.hear(status(200, 150));
  expect(cache.share).toBe(0.75);
});

it("errors and tier states are reported", async () => {
  const { panel: cache } = panel([], { pin: async () => { throw new Error("no such context"); } });
  await cache.pin({ context: context("a"), ids: ["a"] });
  expect(errorText(cache.error)).toBe("no such context");
  const tier = { tier: "ssd", health: "away" } as Parameters<typeof healthWords>[0];
  expect(healthWords(tier)).toBe("cache.health_away");
  expect(healthWords({ ...tier, health: "up" })).toBeUndefined();
});
