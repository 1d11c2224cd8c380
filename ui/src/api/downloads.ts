// `/app/downloads` and `/app/discover`: the download queue, and models to pull.
import { get, post, query } from "./client";
import { live } from "./live.svelte";
import type { DiscoverResponse, Download, DownloadsResponse, MirrorResponse } from "./types";

/** The queue, whenever it changes. */
export const downloadsStatus = () => live<DownloadsResponse>("/app/downloads/events");

const change = (what: string) => (id: number) =>
  post<DownloadsResponse>(`/app/downloads/${what}`, { download: String(id) });

export const downloads = {
  add: (model: string) => post<Download>("/app/downloads", { model }),
  pause: change("pause"),
  resume: change("resume"),
  /** Downloads a model that this version cannot run. */
  force: (id: number) => post<DownloadsResponse>("/app/downloads/resume", { download: String(id), force: true }),
  cancel: change("cancel"),
  discard: change("discard"),
  move: (id: number, position: number) =>
    post<DownloadsResponse>("/app/downloads/reorder", { download: String(id), position }),
  cap: (bytesPerSecond: number | null) =>
    post<DownloadsResponse>("/app/downloads/cap", { bytes_per_second: bytesPerSecond }),
  /** Searches models to pull. With `own` only the built-in catalogue answers, and no other host is contacted. */
  discover: (q: string, own: boolean, signal: AbortSignal) =>
    get<DiscoverResponse>(`/app/discover${query({ q, own, limit: 50 })}`, signal),
  mirrors: () => get<MirrorResponse>("/app/mirror"),
};

export type { Download, DownloadsResponse, DownloadState } from "./types";
export type DownloadsApi = typeof downloads;
