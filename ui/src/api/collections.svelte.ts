// The collections of documents, for their screen and the composer. The daemon does not push changes of these, so they are requested
// again after anything that may have changed them.
import { untrack } from "svelte";
import { collectionsApi, type Collection, type CollectionsApi } from "./collections";

export class Collections {
  /** All collections, by name; `undefined` until the first response. */
  now = $state.raw<readonly Collection[] | undefined>(undefined);
  /** Number of the last request or change, and the number of the one in `now`. */
  #last = 0;
  #shown = 0;

  constructor(readonly api: CollectionsApi = collectionsApi) {}

  /** Requests the list again. A response or an error that is older than the list is dropped. */
  async refresh(): Promise<void> {
    const number = (this.#last += 1);
    try {
      const next = await this.api.list();
      if (number > this.#shown) this.#show(next, number);
    } catch (error) {
      if (number > this.#shown) throw error;
    }
  }

  #show(list: readonly Collection[], number: number): void {
    this.now = list;
    this.#shown = number;
  }

  find(id: string | undefined): Collection | undefined {
    return this.now?.find((one) => one.id === id);
  }

  /** Takes a new or changed collection, unless there is no list yet: it will have the collection. */
  put(collection: Collection): void {
    const before = untrack(() => this.now);
    if (before === undefined) return;
    // The order of the daemon.
    const list = [...before.filter((one) => one.id !== collection.id), collection].sort((a, b) => (a.name < b.name ? -1 : 1));
    this.#show(list, (this.#last += 1));
  }

  /** Forgets a deleted collection. */
  drop(id: string): void {
    const before = untrack(() => this.now);
    if (before !== undefined) this.#show(before.filter((one) => one.id !== id), (this.#last += 1));
  }
}

export const collections = new Collections();
