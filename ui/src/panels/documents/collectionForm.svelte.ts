// The form of a collection: its name and its embedding model, for a new collection or an existing one.
import { ApiError } from "../../api/client";
import type { Collection, CollectionChange } from "../../api/collections";
import { collections as shared, type Collections } from "../../api/collections.svelte";
import { models as installed, type Models } from "../../api/models.svelte";

/** Fields of the form. */
export type CollectionField = "name" | "model";

/** The field that causes an error, if one does. */
const FIELDS: Record<string, CollectionField> = { collection_name_invalid: "name", collection_model_invalid: "model", model_not_found: "model" };

/** Capability of embedding models. */
const EMBEDDING = "embedding";

/** The names of installed models that compute vectors, the newest first. */
export function embeddingModels(models: Models = installed): string[] {
  return models.installed.filter(({ name, size, remotes }) => models.can(name, EMBEDDING) && (size > 0 || !remotes)).map((model) => model.name);
}

/** Describes the models without capabilities in the list. */
export async function describeModels(models: Models = installed): Promise<void> {
  await models.refresh();
  const unclear = models.installed.filter(({ name, capabilities, remotes }) => capabilities === undefined && !remotes && !models.isDescribed(name));
  // A model that cannot be described is not offered.
  await Promise.allSettled(unclear.map(({ name }) => models.describe(name)));
}

export class CollectionForm {
  name = $state("");
  /** An embedding model; empty for none. */
  model = $state("");
  busy = $state(false);
  problem = $state.raw<{ field: CollectionField | undefined; error: unknown } | undefined>(undefined);
  /** The collection that is changed; none for a new one. */
  readonly #before: Collection | undefined;
  #isChosen = false;

  constructor(
    before?: Collection,
    private readonly collections: Collections = shared,
  ) {
    this.#before = before;
    this.name = before?.name ?? "";
    this.model = before?.model ?? "";
    this.#isChosen = before !== undefined;
  }

  /** Preselects a model, until the user has chosen one. */
  offer(model: string | undefined): void {
    if (!this.#isChosen) this.model = model ?? "";
  }

  choose(model: string): void {
    this.#isChosen = true;
    this.model = model;
  }

  get ready(): boolean {
    return this.name.trim() !== "" && !this.busy;
  }

  /** Whether vectors are computed again or deleted. */
  get changesModel(): boolean {
    return this.#before !== undefined && (this.#before.model ?? "") !== this.model;
  }

  #change(): CollectionChange {
    const name = this.name.trim();
    return { ...(name === this.#before?.name ? {} : { name }), ...(this.changesModel ? { model: this.model } : {}) };
  }

  /** Creates or changes the collection. Without a result, `problem` has the error. */
  async save(): Promise<Collection | undefined> {
    if (!this.ready) return undefined;
    this.busy = true;
    this.problem = undefined;
    try {
      const { api } = this.collections;
      const saved = await (this.#before === undefined ? api.create({ name: this.name.trim(), model: this.model }) : api.change(this.#before.id, this.#change()));
      this.collections.put(saved);
      return saved;
    } catch (error) {
      const code = error instanceof ApiError ? error.code : undefined;
      this.problem = { field: code === undefined ? undefined : FIELDS[code], error };
      return undefined;
    } finally {
      this.busy = false;
    }
  }
}
