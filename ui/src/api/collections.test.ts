import { expect, it } from "vitest";
import type { Collection, CollectionsApi } from "./collections";
import { Collections } from "./collections.svelte";

const collection = (id: string, name: string): Collection => ({ id, name, created_at: "2026-11-01T00:00:00Z", documents: 0, chunks: 0, unreadable_chunks: 0, meaning: { state: "no_model" } });
const names = (collections: Collections): string[] | undefined => collections.now?.map((one) => one.name);

it("changed collections replace their entries, in the order of names", async () => {
  const collections = new Collections({ list: async () => [collection("a", "Contracts"), collection("b", "Notes")] } as unknown as CollectionsApi);
  expect([names(collections), collections.find("a")], "before the first response").toEqual([undefined, undefined]);
  await collections.refresh();
  collections.put(collection("a", "Recipes"));
  collections.put(collection("c", "Manuals"));
  expect(names(collections)).toEqual(["Manuals", "Notes", "Recipes"]);
  collections.drop("b");
  expect([names(collections), collections.find("a")?.name, collections.find("b")]).toEqual([["Manuals", "Recipes"], "Recipes", undefined]);
});

it("late list does not replace a newer change", async () => {
  let answer: (list: Collection[]) => void = () => {};
  const collections = new Collections({ list: () => new Promise((resolve) => (answer = resolve)) } as unknown as CollectionsApi);
  const first = collections.refresh();
  collections.put(collection("a", "Notes"));
  expect(names(collections), "one collection is no list").toBeUndefined();
  answer([collection("a", "Notes")]);
  await first;
  const second = collections.refresh();
  collections.put(collection("a", "Ideas"));
  answer([collection("a", "Notes")]);
  await second;
  expect(names(collections)).toEqual(["Ideas"]);
});

/** Collections of a daemon that answers on demand of the test. */
function onDemand() {
  const requests: { done: (list: Collection[]) => void; fail: (error: unknown) => void }[] = [];
  const collections = new Collections({ list: () => new Promise((done, fail) => requests.push({ done, fail })) } as unknown as CollectionsApi);
  return { collections, requests };
}

it("newer list replaces an older one in both orders", async () => {
  const { collections, requests } = onDemand();
  const loads = [collections.refresh(), collections.refresh(), collections.refresh(), collections.refresh()];
  requests[0]?.done([collection("a", "First")]);
  await loads[0];
  requests[1]?.done([collection("a", "Second")]);
  await loads[1];
  expect(names(collections)).toEqual(["Second"]);
  requests[3]?.done([collection("a", "Fourth")]);
  await loads[3];
  requests[2]?.done([collection("a", "Third")]);
  await loads[2];
  expect(names(collections)).toEqual(["Fourth"]);
});

it("late error is dropped, and a newer one is not", async () => {
  const { collections, requests } = onDemand();
  const loads = [collections.refresh(), collections.refresh(), collections.refresh()];
  requests[1]?.done([collection("a", "Notes")]);
  await loads[1];
  requests[0]?.fail(new Error("late"));
  await expect(loads[0]).resolves.toBeUndefined();
  requests[2]?.fail(new Error("offline"));
  await expect(loads[2]).rejects.toThrow("offline");
});

it("deleted collection is not in a late list", async () => {
  const { collections, requests } = onDemand();
  const first = collections.refresh();
  requests[0]?.done([collection("a", "Notes"), collection("b", "Ideas")]);
  await first;
  const second = collections.refresh();
  collections.drop("a");
  requests[1]?.done([collection("a", "Notes"), collection("b", "Ideas")]);
  await second;
  expect(names(collections)).toEqual(["Ideas"]);
});
