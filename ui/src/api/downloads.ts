// Models on their way here; `/app/downloads`.
export type DownloadState = "queued" | "running" | "paused" | "stopped" | "failed" | "done";

export interface Download {
  id: number;
  model: string;
  state: DownloadState;
  total: number;
  completed: number;
  bytes_per_second: number;
  eta_seconds?: number;
  held_bytes: number;
  source?: string;
  trouble?: string;
  error?: string;
  detached: boolean;
}

export interface DownloadsResponse {
  downloads: Download[];
  limit_bytes_per_second?: number;
}
