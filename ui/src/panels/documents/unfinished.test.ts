import { expect, it, vi } from "vitest";
import type { CollectionDocument } from "../../api/collections";
import { unfinishedWork } from "../../app/unfinishedWork";
import { OpenCollection } from "./openCollection.svelte";
import { uploads } from "./uploads.svelte";

it("files on their way and removals that wait are unfinished work on all screens", () => {
  vi.useFakeTimers();
  vi.stubGlobal("fetch", () => new Promise(() => {}));
  expect(unfinishedWork.exists()).toBe(false);
  uploads.add("c", [{ name: "a.txt", file: { name: "a.txt", size: 3 } as File }]);
  expect(unfinishedWork.exists()).toBe(true);
  uploads.drop("c");
  expect(unfinishedWork.exists()).toBe(false);
  const document = { id: "d", name: "a.txt" } as CollectionDocument;
  const opened = new OpenCollection("c");
  opened.remove(document, () => {});
  expect(unfinishedWork.exists()).toBe(true);
  opened.restore(document);
  expect(unfinishedWork.exists()).toBe(false);
  vi.useRealTimers();
  vi.unstubAllGlobals();
});
