// Installed models: lists, disk usage, actions; and files that can be imported.
import { get, post, stream } from "./client";
import type {
  DeleteResponse,
  ImportLine,
  ImportRequest,
  PsResponse,
  ScanLine,
  ScanRequest,
  ShowResponse,
  TagsResponse,
  UpdatesResponse,
  UsageResponse,
  VerifyLine,
} from "./types";

export const models = {
  tags: async () => (await get<TagsResponse>("/api/tags")).models,
  loaded: async () => (await get<PsResponse>("/api/ps")).models,
  show: (model: string) => post<ShowResponse>("/api/show", { model }),
  usage: () => get<UsageResponse>("/app/usage"),
  /** Compares all pulled models with their registries. */
  updates: async () => (await get<UpdatesResponse>("/app/updates")).models,
  remove: (model: string) => post<DeleteResponse>("/app/delete", { model }),
  /** Unloads a model: an empty request with `keep_alive` 0. */
  unload: (model: string) => post<unknown>("/api/generate", { model, keep_alive: 0, stream: false }),
  load: (model: string, force: boolean) => post<unknown>("/app/load", { model, force }),
  verify: (names: string[], signal: AbortSignal) =>
    stream<VerifyLine>("POST", "/app/verify", { body: { models: names }, signal }),
  importFile: (request: ImportRequest, signal: AbortSignal) =>
    stream<ImportLine>("POST", "/app/import", { body: request, signal }),
  scan: (request: ScanRequest, signal: AbortSignal) => stream<ScanLine>("POST", "/app/scan", { body: request, signal }),
};

export type ModelsApi = typeof models;
