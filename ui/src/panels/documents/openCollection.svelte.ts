// A collection that the user has opened: its documents with their progress, and removals.
import { ApiError } from "../../api/client";
import type { CollectionDocument, CollectionResponse } from "../../api/collections";
import { collections as shared, type Collections } from "../../api/collections.svelte";
import { unfinishedWork } from "../../app/unfinishedWork";
import { Deferred } from "../../components/deferred.svelte";
import { IDLE_MS, WORKING_MS } from "./progress";
import { isTransient } from "./transientErrors";
import { uploads as queue, type Uploads } from "./uploads.svelte";

/** Errors of a removal that was done by another window. */
const REMOVED = ["collection_not_found", "collection_document_not_found"];

/** Removals that can be undone, also after the user has left the screen. */
const pending = new Deferred();
unfinishedWork.add(() => pending.waiting.length > 0);

export class OpenCollection {
  /** The last response; `undefined` until the first one. */
  now = $state.raw<CollectionResponse | undefined>(undefined);
  /** Why the last request failed. */
  error = $state.raw<unknown>(undefined);
  /** Removed documents that the last response still has. */
  #removed = $state.raw<readonly string[]>([]);
  /** Number of the last request, and of the one with the shown response or error. */
  #last = 0;
  #shown = 0;

  constructor(
    readonly id: string,
    private readonly collections: Collections = shared,
    private readonly uploads: Uploads = queue,
    private readonly removals: Deferred = pending,
  ) {}

  /** Loads the collection, and again from time to time while the page is visible. Returns a function that ends this. */
  start(): () => void {
    let isStopped = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const turn = async (): Promise<void> => {
      clearTimeout(timer);
      if (!document.hidden) await this.load();
      clearTimeout(timer);
      if (!isStopped) timer = setTimeout(() => void turn(), this.isWorking ? WORKING_MS : IDLE_MS);
    };
    const leave = this.uploads.watch(this.id, () => void turn());
    const seen = (): void => void turn();
    document.addEventListener("visibilitychange", seen);
    void turn();
    return () => {
      isStopped = true;
      clearTimeout(timer);
      leave();
      document.removeEventListener("visibilitychange", seen);
    };
  }

  /** Requests the collection. A response or an error that is older than the shown one is dropped. */
  async load(): Promise<void> {
    const number = (this.#last += 1);
    try {
      const next = await this.collections.api.read(this.id);
      if (number < this.#shown) return;
      this.#shown = number;
      this.error = undefined;
      this.now = next;
      this.collections.put(next.collection);
      this.uploads.note(this.id, next.documents);
    } catch (error) {
      if (number < this.#shown) return;
      this.#shown = number;
      this.error = error;
    }
  }

  /** All documents, without removed ones and without those that this page is sending: they are in the list of its files. */
  get documents(): CollectionDocument[] {
    const sending = this.uploads.of(this.id).filter((one) => one.state === "sending");
    return (this.now?.documents ?? []).filter((document) => {
      if (this.removals.has(this.#key(document)) || this.#removed.includes(document.id)) return false;
      return document.status.state !== "reading" || !sending.some((one) => one.name === document.name && one.file.size === document.bytes);
    });
  }

  /** Whether documents are read or vectors are computed. */
  get isWorking(): boolean {
    if (this.uploads.isBusy(this.id)) return true;
    const states = (this.now?.documents ?? []).map((document) => document.status.state);
    return this.now?.collection.meaning.state === "embedding" || states.includes("reading") || states.includes("embedding");
  }

  /** Whether a document that failed can be sent again. */
  canRetry({ id, status }: CollectionDocument): boolean {
    return status.state === "failed" && isTransient(status.error) && this.uploads.fileOf(id) !== undefined;
  }

  /** Whether the file of a document waits or is sent again. */
  isRetrying({ id }: CollectionDocument): boolean {
    const file = this.uploads.fileOf(id)?.file;
    return file !== undefined && this.uploads.of(this.id).some((one) => one.file === file && one.state !== "failed");
  }

  /** Sends the file of a document again, which replaces it. */
  retry(document: CollectionDocument): void {
    const file = this.uploads.fileOf(document.id);
    if (file !== undefined && !this.isRetrying(document)) this.uploads.add(this.id, [file]);
  }

  /** Removes a document after the time for an undo. `onfail` gets the error of the daemon. */
  remove(document: CollectionDocument, onfail: (error: unknown) => void): void {
    const { id, name } = document;
    this.removals.later(this.#key(document), name, async () => {
      try {
        this.#removed = [...this.#removed, id];
        await this.collections.api.removeDocument(this.id, id);
      } catch (error) {
        this.#removed = this.#removed.filter((one) => one !== id);
        if (!(error instanceof ApiError && REMOVED.includes(error.code ?? ""))) onfail(error);
      }
      await this.load();
    });
  }

  /** Restores a document that is about to be removed. */
  restore(document: CollectionDocument): void {
    this.removals.takeBack(this.#key(document));
  }

  #key({ id }: CollectionDocument): string {
    return `${this.id} ${id}`;
  }
}
