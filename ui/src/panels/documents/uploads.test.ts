import { expect, it, vi } from "vitest";
import { ApiError } from "../../api/client";
import type { CollectionDocument, CollectionResponse } from "../../api/collections";
import { MOST_BYTES } from "./files";
import { Uploads } from "./uploads.svelte";

const file = (name: string, bytes = 3) => ({ name, file: { name, size: bytes } as File });
const failed = (code: string): ApiError => new ApiError(422, "no", { error: "no", code });
const row = (id: string, name: string, part: Partial<CollectionDocument> = {}): CollectionDocument => ({ id, name, bytes: 3, added_at: "", chunks: 1, unreadable_chunks: 0, status: { state: "ready" }, ...part });

/** A daemon that answers on demand of the test. */
function daemon(documents: CollectionDocument[] = []) {
  const open = new Map<string, { done: (id: string) => void; fail: (error: unknown) => void }>();
  const uploads = new Uploads({
    addDocument: (_, name) => new Promise((resolve, reject) => open.set(name, { done: (id) => (open.delete(name), resolve(row(id, name))), fail: (error) => (open.delete(name), reject(error)) })),
    read: async () => ({ documents }) as unknown as CollectionResponse,
  });
  return { uploads, open, states: () => uploads.list.map((one) => `${one.name} ${one.state}`) };
}

it("files are sent two at a time in their order", async () => {
  const { uploads, open, states } = daemon();
  const ended = vi.fn();
  const leave = uploads.watch("c", ended);
  uploads.add("c", [file("1"), file("2"), file("3"), file("4")]);
  expect(states()).toEqual(["1 sending", "2 sending", "3 waiting", "4 waiting"]);
  expect(uploads.isBusy("c")).toBe(true);
  open.get("2")?.done("b");
  await vi.waitFor(() => expect(states()).toEqual(["1 sending", "3 sending", "4 waiting"]));
  uploads.cancelWaiting("c");
  open.get("1")?.done("a");
  open.get("3")?.done("c");
  await vi.waitFor(() => expect(uploads.list).toEqual([]));
  expect([uploads.tallies.get("c"), uploads.isBusy("c"), uploads.isWorking]).toEqual([{ added: 3, same: 0, failed: 0 }, false, false]);
  expect(ended).toHaveBeenCalledTimes(3);
  leave();
});

it("file that the collection has already is not new", async () => {
  const { uploads, open } = daemon();
  uploads.note("c", [{ id: "old" }]);
  uploads.add("c", [file("copy"), file("new")]);
  uploads.note("c", [{ id: "old" }, { id: "n" }]);
  open.get("copy")?.done("old");
  open.get("new")?.done("n");
  await vi.waitFor(() => expect(uploads.tallies.get("c")).toEqual({ added: 1, same: 1, failed: 0 }));
  uploads.add("c", [file("twin 1"), file("twin 2")]);
  open.get("twin 1")?.done("t");
  open.get("twin 2")?.done("t");
  await vi.waitFor(() => expect(uploads.tallies.get("c"), "two equal files").toEqual({ added: 1, same: 1, failed: 0 }));
  uploads.add("c", [file("new again")]);
  open.get("new again")?.done("n");
  await vi.waitFor(() => expect(uploads.tallies.get("c"), "the count begins again").toEqual({ added: 0, same: 1, failed: 0 }));
});

it("empty and large files are refused before they are sent", () => {
  const { uploads, states } = daemon();
  uploads.add("c", [file("empty", 0), file("large", MOST_BYTES + 1), file("fits", MOST_BYTES)]);
  expect(states()).toEqual(["empty failed", "large failed", "fits sending"]);
  expect(uploads.list.map((one) => (one.error as { code?: string } | undefined)?.code)).toEqual(["document_empty", "document_too_large", undefined]);
  uploads.leaveOut(uploads.list[0]!);
  expect(states()).toEqual(["large failed", "fits sending"]);
});

it("file that the daemon keeps with its error leaves the list and can be sent again", async () => {
  const error = { error: "no", code: "document_timeout" } as const;
  const { uploads, open } = daemon([row("kept", "slow.pdf", { status: { state: "failed", error } }), row("other", "slow.pdf", { bytes: 9, status: { state: "failed", error } })]);
  uploads.add("c", [file("slow.pdf")]);
  open.get("slow.pdf")?.fail(failed("document_timeout"));
  await vi.waitFor(() => expect(uploads.list).toEqual([]));
  expect([uploads.fileOf("kept")?.name, uploads.fileOf("other"), uploads.tallies.get("c")?.failed]).toEqual(["slow.pdf", undefined, 1]);
});

it("other failures stay in the list until they are sent again", async () => {
  const { uploads, open, states } = daemon();
  uploads.add("c", [file("1"), file("2")]);
  open.get("1")?.fail(new ApiError(0, "offline"));
  open.get("2")?.fail(failed("document_damaged"));
  await vi.waitFor(() => expect(states()).toEqual(["1 failed", "2 failed"]));
  uploads.retry(uploads.list[0]!);
  expect(states()).toEqual(["2 failed", "1 sending"]);
  open.get("1")?.fail(new ApiError(0, "offline"));
  await vi.waitFor(() => expect(states()).toEqual(["2 failed", "1 failed"]));
  uploads.retryAll("c");
  expect(states(), "a damaged file stays damaged").toEqual(["2 failed", "1 sending"]);
});

it("full collection refuses the waiting files, too", async () => {
  const { uploads, open, states } = daemon();
  uploads.add("c", [file("1"), file("2"), file("3")]);
  uploads.add("other", [file("4")]);
  open.get("1")?.fail(failed("collection_full"));
  await vi.waitFor(() => expect(states()).toEqual(["1 failed", "2 sending", "3 failed", "4 sending"]));
  expect(uploads.tallies.get("c"), "all of them are counted").toEqual({ added: 0, same: 0, failed: 2 });
});

it("deleted collection has no files on their way", async () => {
  const { uploads, open } = daemon();
  uploads.add("c", [file("1"), file("2"), file("3")]);
  open.get("1")?.fail(failed("collection_not_found"));
  await vi.waitFor(() => expect(uploads.list).toEqual([]));
  expect(uploads.tallies.has("c")).toBe(false);
});
