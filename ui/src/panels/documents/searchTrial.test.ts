import { expect, it } from "vitest";
import type { CollectionHits } from "../../api/collections";
import { SearchTrial } from "./searchTrial.svelte";

function trial() {
  const open: { query: string; done: (hits: CollectionHits) => void; fail: (error: unknown) => void }[] = [];
  const search = new SearchTrial("c", { search: (_, query) => new Promise((done, fail) => open.push({ query, done, fail })) });
  return { open, search };
}

it("result of an older search is dropped", async () => {
  const { open, search } = trial();
  search.query = " first ";
  const first = search.search();
  search.query = "second";
  const second = search.search();
  open[1]?.done({ hits: [], words_only: "no_model" });
  await second;
  open[0]?.done({ hits: [] });
  await first;
  expect([search.found, search.busy]).toEqual([{ hits: [], words_only: "no_model", query: "second" }, false]);
});

it("failed search shows its error, and an empty query clears it", async () => {
  const { open, search } = trial();
  search.query = "x";
  const searched = search.search();
  open[0]?.fail(new Error("no"));
  await searched;
  expect([search.error, search.busy]).toEqual([new Error("no"), false]);
  search.query = "  ";
  await search.search();
  expect([search.error, search.found, open.length]).toEqual([undefined, undefined, 1]);
});

it("cleared search ignores its late result", async () => {
  const { open, search } = trial();
  search.query = "x";
  const searched = search.search();
  search.clear();
  open[0]?.done({ hits: [] });
  await searched;
  expect([search.query, search.found, search.busy]).toEqual(["", undefined, false]);
});
