// The collections of documents, for their screen and the composer. The daemon does not push changes of these, so they are requested
// again after anything that may have changed them.
import { untrack } from "svelte";
import { collectionsApi, type Collection, type CollectionsApi } from "./collections";

export class Collections {
  /** All collections, by name; `undefined` until the first response. */
  now = $state.raw<readonly Collection[] | undefined>(undefined);

  constructor(readonly api: CollectionsApi = collectionsApi) {}

  /** Requests the list again. A change made meanwhile has a newer one. */
  async refresh(): Promise<void> {
    const before = untrack(() => this.now);
    const next = await this.api.list();
    if (untrack(() => this.now) === before) this.now = next;
  }

  find(id: string | undefined): Collection | undefined {
    return this.now?.find((one) => one.id === id);
  }

  /** Takes a new or changed collection, unless there is no list yet: it will have the collection. */
  put(collection: Collection): void {
    const before = untrack(() => this.now);
    if (before === undefined) return;
    // The order of the daemon.
    this.now = [...before.filter((one) => one.id !== collection.id), collection].sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  /** Forgets a deleted collection. */
  drop(id: string): void {
    this.now = untrack(() => this.now)?.filter((one) => one.id !== id);
  }
}

export const collections = new Collections();
