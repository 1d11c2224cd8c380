// Files on their way into collections: two at a time, in the order in which they were chosen. They continue while other screens are shown.
import { SvelteMap } from "svelte/reactivity";
import { ApiError } from "../../api/client";
import { collectionsApi, type CollectionDocument, type CollectionsApi } from "../../api/collections";
import type { ErrorBody } from "../../api/types";
import { unfinishedWork } from "../../app/unfinishedWork";
import { MOST_BYTES, type NamedFile } from "./files";
import { isTransient } from "./transientErrors";

/** Most files that are sent at a time. */
const PARALLEL = 2;

export interface Upload extends NamedFile {
  key: number;
  collection: string;
  state: "waiting" | "sending" | "failed";
  /** Why it failed. */
  error?: unknown;
}

/** The result of the files that were added together. */
export interface Tally {
  added: number;
  /** Files that the collection had already. */
  same: number;
  failed: number;
}

/** Why a file is not sent at all. */
function refusal(file: File): ErrorBody | undefined {
  if (file.size === 0) return { error: "the file is empty", code: "document_empty" };
  if (file.size > MOST_BYTES) return { error: "the file is too large", code: "document_too_large", params: { limit_bytes: String(MOST_BYTES) } };
  return undefined;
}

const codeOf = (error: unknown): string | undefined => (error instanceof ApiError ? error.code : undefined);

export class Uploads {
  list = $state.raw<readonly Upload[]>([]);
  /** Results of the last files, by collection, while files are added and afterwards. */
  readonly tallies = new SvelteMap<string, Tally>();
  /** Files of documents that could not be read, by the document's id: they can be sent again. */
  readonly #files = new Map<string, NamedFile>();
  /** Ids of the documents that each collection had at the last look, and of those that this page has added. */
  readonly #documents = new Map<string, ReadonlySet<string>>();
  readonly #added = new Set<string>();
  readonly #listeners = new Map<string, Set<() => void>>();
  readonly #aborts = new Map<number, AbortController>();
  #next = 1;

  constructor(private readonly api: Pick<CollectionsApi, "addDocument" | "read"> = collectionsApi) {}

  of(collection: string): Upload[] {
    return this.list.filter((one) => one.collection === collection);
  }

  /** Whether files of a collection are waiting or being sent. */
  isBusy(collection: string): boolean {
    return this.list.some((one) => one.collection === collection && one.state !== "failed");
  }

  /** Whether files of any collection are. */
  get isWorking(): boolean {
    return this.list.some((one) => one.state !== "failed");
  }

  /** Calls back after each file of a collection, until the returned function is called. */
  watch(collection: string, listener: () => void): () => void {
    const all = this.#listeners.get(collection) ?? new Set();
    this.#listeners.set(collection, all.add(listener));
    return () => void all.delete(listener);
  }

  /** Notes the documents of a collection, so that a file that it has already is not counted as new. */
  note(collection: string, documents: readonly Pick<CollectionDocument, "id">[]): void {
    this.#documents.set(collection, new Set(documents.map((one) => one.id)));
  }

  add(collection: string, files: readonly NamedFile[]): void {
    if (!this.isBusy(collection)) this.tallies.set(collection, { added: 0, same: 0, failed: 0 });
    const uploads = files.map(({ name, file }): Upload => {
      const error = refusal(file);
      this.#next += 1;
      return { key: this.#next, collection, name, file, ...(error === undefined ? { state: "waiting" } : { state: "failed", error }) };
    });
    this.list = [...this.list, ...uploads];
    this.#count(collection, { failed: uploads.filter((one) => one.state === "failed").length });
    this.#begin();
  }

  /** Sends a file again. */
  retry({ key, collection, name, file }: Upload): void {
    this.#forget(key);
    this.add(collection, [{ name, file }]);
  }

  /** Whether a file failed and can be sent again. */
  canRetry({ state, error }: Upload): boolean {
    return state === "failed" && isTransient(error);
  }

  /** Sends all files again that failed, except those with errors of their own. */
  retryAll(collection: string): void {
    const failed = this.of(collection).filter((one) => this.canRetry(one));
    this.list = this.list.filter((one) => !failed.includes(one));
    this.add(collection, failed);
  }

  /** Leaves out a file that waits or failed. */
  leaveOut({ key }: Upload): void {
    this.#forget(key);
  }

  /** Leaves out all files that wait. */
  cancelWaiting(collection: string): void {
    this.list = this.list.filter((one) => one.collection !== collection || one.state !== "waiting");
  }

  /** The file of a document that could not be read, if this page has sent it. */
  fileOf(document: string): NamedFile | undefined {
    return this.#files.get(document);
  }

  /** Leaves out everything of a deleted collection. */
  drop(collection: string): void {
    for (const { key } of this.of(collection)) this.#aborts.get(key)?.abort();
    this.list = this.list.filter((one) => one.collection !== collection);
    this.tallies.delete(collection);
  }

  #forget(key: number): void {
    this.list = this.list.filter((one) => one.key !== key);
  }

  #set(key: number, change: Pick<Upload, "state" | "error">): void {
    this.list = this.list.map((one) => (one.key === key ? { ...one, ...change } : one));
  }

  #count(collection: string, { added = 0, same = 0, failed = 0 }: Partial<Tally>): void {
    const now = this.tallies.get(collection);
    if (now !== undefined) this.tallies.set(collection, { added: now.added + added, same: now.same + same, failed: now.failed + failed });
  }

  #begin(): void {
    const free = PARALLEL - this.list.filter((one) => one.state === "sending").length;
    const next = this.list.filter((one) => one.state === "waiting").slice(0, Math.max(0, free));
    for (const upload of next) {
      this.#set(upload.key, { state: "sending" });
      void this.#send(upload);
    }
  }

  async #send(upload: Upload): Promise<void> {
    const { key, collection, name, file } = upload;
    const abort = new AbortController();
    this.#aborts.set(key, abort);
    // A look while the file is sent finds its new document.
    const before = this.#documents.get(collection);
    try {
      const { id } = await this.api.addDocument(collection, name, file, abort.signal);
      this.#count(collection, before?.has(id) || this.#added.has(id) ? { same: 1 } : { added: 1 });
      this.#added.add(id);
      this.#forget(key);
    } catch (error) {
      if (!abort.signal.aborted) await this.#fail(upload, error);
    } finally {
      this.#aborts.delete(key);
    }
    for (const listener of this.#listeners.get(collection) ?? []) listener();
    this.#begin();
  }

  /** Each of the files that wait would be refused, too. */
  #failWaiting(collection: string, error: unknown): void {
    const waiting = this.of(collection).filter((one) => one.state === "waiting");
    for (const { key } of waiting) this.#set(key, { state: "failed", error });
    this.#count(collection, { failed: waiting.length });
  }

  /** The daemon keeps a document that it cannot read, with the error. Other files stay in the list. */
  async #fail({ key, collection, name, file }: Upload, error: unknown): Promise<void> {
    const code = codeOf(error);
    this.#count(collection, { failed: 1 });
    if (code === "collection_not_found") return this.drop(collection);
    if (code === "collection_full") this.#failWaiting(collection, error);
    const read = code?.startsWith("document_") ? await this.api.read(collection).catch(() => undefined) : undefined;
    const kept = read?.documents.findLast((one) => one.name === name && one.bytes === file.size && one.status.state === "failed");
    if (kept === undefined) return this.#set(key, { state: "failed", error });
    this.#files.set(kept.id, { name, file });
    this.#forget(key);
  }
}

export const uploads = new Uploads();
unfinishedWork.add(() => uploads.isWorking);
