import { afterEach, expect, it, vi } from "vitest";
import { ApiError } from "../../api/client";
import type { Collection, CollectionDocument, CollectionResponse, CollectionsApi, MeaningSearch } from "../../api/collections";
import { Collections } from "../../api/collections.svelte";
import { Deferred, GRACE_MS } from "../../components/deferred.svelte";
import { OpenCollection } from "./openCollection.svelte";
import { Uploads } from "./uploads.svelte";

const row = (id: string, part: Partial<CollectionDocument> = {}): CollectionDocument => ({ id, name: `${id}.txt`, bytes: 3, added_at: "", chunks: 1, unreadable_chunks: 0, status: { state: "ready" }, ...part });
const collection = (meaning: MeaningSearch = { state: "no_model" }): Collection => ({ id: "c", name: "Notes", created_at: "", documents: 0, chunks: 0, unreadable_chunks: 0, meaning });

/** A daemon with one collection in memory. */
function daemon(documents: CollectionDocument[], meaning?: MeaningSearch) {
  const state = { documents, meaning, reads: 0 };
  const api = {
    read: async (): Promise<CollectionResponse> => ((state.reads += 1), { collection: collection(state.meaning), documents: state.documents }),
    removeDocument: async (_: string, id: string) => void (state.documents = state.documents.filter((one) => one.id !== id)),
    addDocument: () => new Promise<CollectionDocument>(() => {}),
  } as unknown as CollectionsApi;
  const collections = new Collections(api);
  collections.now = [];
  const uploads = new Uploads(api);
  return { state, api, collections, uploads, opened: new OpenCollection("c", collections, uploads, new Deferred()) };
}
const ids = (opened: OpenCollection): string[] => opened.documents.map((one) => one.id);

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

it("removed document is hidden at once and can be restored", async () => {
  vi.useFakeTimers();
  const { opened, state } = daemon([row("a"), row("b")]);
  const onfail = vi.fn();
  await opened.load();
  opened.remove(row("a"), onfail);
  expect(ids(opened)).toEqual(["b"]);
  opened.restore(row("a"));
  expect(ids(opened)).toEqual(["a", "b"]);
  opened.remove(row("a"), onfail);
  await vi.advanceTimersByTimeAsync(GRACE_MS);
  expect([ids(opened), state.documents.map((one) => one.id), onfail.mock.calls.length]).toEqual([["b"], ["b"], 0]);
});

it("refused removal shows the document again, with the error", async () => {
  vi.useFakeTimers();
  const { opened, api } = daemon([row("a")]);
  api.removeDocument = () => Promise.reject(new Error("busy"));
  const onfail = vi.fn();
  await opened.load();
  opened.remove(row("a"), onfail);
  await vi.advanceTimersByTimeAsync(GRACE_MS);
  expect([ids(opened), onfail.mock.calls]).toEqual([["a"], [[new Error("busy")]]]);
  api.removeDocument = () => Promise.reject(new ApiError(404, "gone", { error: "gone", code: "collection_document_not_found" }));
  opened.remove(row("a"), onfail);
  await vi.advanceTimersByTimeAsync(GRACE_MS);
  expect(onfail.mock.calls.length, "another window has removed it").toBe(1);
});

it("document that this page is sending is in its list of files only", async () => {
  const { opened, uploads } = daemon([row("a", { status: { state: "reading" } }), row("b", { status: { state: "reading" } })]);
  await opened.load();
  expect(ids(opened)).toEqual(["a", "b"]);
  uploads.add("c", [{ name: "a.txt", file: { name: "a.txt", size: 3 } as File }]);
  expect(ids(opened)).toEqual(["b"]);
});

it("work is documents that are read, vectors, and files on their way", async () => {
  const check = async (documents: CollectionDocument[], meaning: MeaningSearch | undefined, expected: boolean): Promise<void> => {
    const { opened } = daemon(documents, meaning);
    await opened.load();
    expect(opened.isWorking).toBe(expected);
  };
  await check([row("a")], undefined, false);
  await check([row("a", { status: { state: "reading" } })], undefined, true);
  await check([row("a", { status: { state: "embedding", done: 1, total: 2 } })], undefined, true);
  await check([row("a")], { state: "embedding", done: 1, total: 2 }, true);
  const { opened, uploads } = daemon([]);
  uploads.add("c", [{ name: "a.txt", file: { name: "a.txt", size: 3 } as File }]);
  expect(opened.isWorking).toBe(true);
});

it("progress is requested each second while there is work and the page is visible", async () => {
  vi.useFakeTimers();
  const page = { hidden: false, addEventListener: vi.fn(), removeEventListener: vi.fn() };
  vi.stubGlobal("document", page);
  const { opened, state, collections } = daemon([row("a", { status: { state: "reading" } })]);
  const stop = opened.start();
  await vi.advanceTimersByTimeAsync(2_000);
  expect(state.reads).toBe(3);
  expect(collections.find("c")?.name, "the shared list has it").toBe("Notes");
  state.documents = [row("a")];
  await vi.advanceTimersByTimeAsync(1_000);
  await vi.advanceTimersByTimeAsync(4_000);
  expect(state.reads, "then it is rare").toBe(4);
  page.hidden = true;
  await vi.advanceTimersByTimeAsync(60_000);
  expect(state.reads, "and hidden pages request nothing").toBe(4);
  stop();
  page.hidden = false;
  await vi.advanceTimersByTimeAsync(60_000);
  expect(state.reads).toBe(4);
});

it("late response does not replace a newer one", async () => {
  const { opened, api } = daemon([]);
  const answers: ((response: CollectionResponse) => void)[] = [];
  api.read = () => new Promise((resolve) => answers.push(resolve));
  const loads = [opened.load(), opened.load()];
  answers[1]?.({ collection: collection(), documents: [row("new")] });
  await loads[1];
  answers[0]?.({ collection: collection(), documents: [row("old")] });
  await loads[0];
  expect(ids(opened)).toEqual(["new"]);
});

it("failed document can be sent again if another attempt may help and this page has its file", async () => {
  const { opened, uploads } = daemon([]);
  const failed = (id: string, code: "document_timeout" | "document_damaged"): CollectionDocument => row(id, { status: { state: "failed", error: { error: "no", code } } });
  vi.spyOn(uploads, "fileOf").mockImplementation((id) => (id === "gone" ? undefined : { name: id, file: { size: 3 } as File }));
  expect([opened.canRetry(failed("a", "document_timeout")), opened.canRetry(failed("a", "document_damaged")), opened.canRetry(failed("gone", "document_timeout")), opened.canRetry(row("a"))]).toEqual([true, false, false, false]);
  opened.retry(failed("a", "document_timeout"));
  expect(uploads.list.map((one) => one.name)).toEqual(["a"]);
});

it("each response replaces an older one when they arrive in order", async () => {
  const { opened, api } = daemon([]);
  const answers: ((response: CollectionResponse) => void)[] = [];
  api.read = () => new Promise((resolve) => answers.push(resolve));
  const loads = [opened.load(), opened.load()];
  answers[0]?.({ collection: collection(), documents: [row("old")] });
  await loads[0];
  expect(ids(opened)).toEqual(["old"]);
  answers[1]?.({ collection: collection(), documents: [row("new")] });
  await loads[1];
  expect(ids(opened)).toEqual(["new"]);
});

it("late error does not replace a newer response, and a late response no newer error", async () => {
  const { opened, api } = daemon([]);
  const requests: { done: (response: CollectionResponse) => void; fail: (error: unknown) => void }[] = [];
  api.read = () => new Promise((done, fail) => requests.push({ done, fail }));
  const loads = [opened.load(), opened.load(), opened.load(), opened.load()];
  requests[1]?.done({ collection: collection(), documents: [row("new")] });
  requests[0]?.fail(new Error("late"));
  await Promise.all(loads.slice(0, 2));
  expect([ids(opened), opened.error]).toEqual([["new"], undefined]);
  requests[3]?.fail(new Error("offline"));
  await loads[3];
  requests[2]?.done({ collection: collection(), documents: [row("late")] });
  await loads[2];
  expect([ids(opened), opened.error]).toEqual([["new"], new Error("offline")]);
});

it("document is not sent twice at a time", () => {
  const { opened, uploads } = daemon([]);
  const error = { error: "no", code: "document_timeout" } as const;
  const slow = row("a", { status: { state: "failed", error } });
  const file = { name: "a.txt", file: { name: "a.txt", size: 3 } as File };
  vi.spyOn(uploads, "fileOf").mockReturnValue(file);
  expect(opened.isRetrying(slow)).toBe(false);
  opened.retry(slow);
  expect(opened.isRetrying(slow)).toBe(true);
  opened.retry(slow);
  expect(uploads.list.length).toBe(1);
});
