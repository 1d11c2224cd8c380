// A search in a collection, to see what a model would get.
import { collectionsApi, type CollectionHits, type CollectionsApi } from "../../api/collections";

/** The hits of a query. */
export interface Found extends CollectionHits {
  query: string;
}

export class SearchTrial {
  query = $state("");
  found = $state.raw<Found | undefined>(undefined);
  error = $state.raw<unknown>(undefined);
  busy = $state(false);
  #last = 0;

  constructor(
    private readonly collection: string,
    private readonly api: Pick<CollectionsApi, "search"> = collectionsApi,
  ) {}

  /** Searches for the query. The result of an older search is dropped. */
  async search(): Promise<void> {
    const query = this.query.trim();
    if (query === "") return this.clear();
    const number = (this.#last += 1);
    this.busy = true;
    try {
      const hits = await this.api.search(this.collection, query);
      if (number !== this.#last) return;
      this.found = { ...hits, query };
      this.error = undefined;
    } catch (error) {
      if (number !== this.#last) return;
      this.found = undefined;
      this.error = error;
    } finally {
      if (number === this.#last) this.busy = false;
    }
  }

  clear(): void {
    this.#last += 1;
    this.busy = false;
    this.query = "";
    this.found = undefined;
    this.error = undefined;
  }
}
