// `/app/collections`: collections of documents, and searches in them.
import { get, patch, post, query, remove, request } from "./client";
import type * as types from "./types";

export type {
  Collection, CollectionChange, CollectionDocument, CollectionHit, CollectionHits, CollectionResponse, DocumentFormat, DocumentStatus, HitOrigin, MeaningSearch, NewCollectionRequest, PartPlace, WordsOnly,
} from "./types";

const at = (id: string, rest = ""): string => `/app/collections/${encodeURIComponent(id)}${rest}`;

export const collectionsApi = {
  /** All collections, by name. */
  list: async () => (await get<types.CollectionsResponse>("/app/collections")).collections,
  create: (collection: types.NewCollectionRequest) => post<types.Collection>("/app/collections", collection),
  /** A collection with its documents. */
  read: (id: string) => get<types.CollectionResponse>(at(id)),
  /** Changes the name, or the embedding model: an empty one is none. */
  change: (id: string, change: types.CollectionChange) => patch<types.Collection>(at(id), change),
  /** Deletes a collection with all its documents. */
  remove: (id: string) => remove<void>(at(id)),
  /**
   * Adds a document, and returns it when its text is stored. Its vectors are computed later. If the collection has the same file
   * already, returns that document. A document that cannot be read stays in the collection with the error.
   */
  addDocument: (id: string, name: string, file: Blob, signal?: AbortSignal) =>
    request<types.CollectionDocument>("POST", at(id, `/documents${query({ name })}`), { file, ...(signal ? { signal } : {}) }),
  removeDocument: (id: string, document: string) => remove<void>(at(id, `/documents/${encodeURIComponent(document)}`)),
  /** The passages that answer a question, best first. */
  search: (id: string, words: string, limit?: number) =>
    post<types.CollectionHits>(at(id, "/search"), { query: words, ...(limit === undefined ? {} : { limit }) } satisfies types.CollectionSearch),
};

export type CollectionsApi = typeof collectionsApi;
