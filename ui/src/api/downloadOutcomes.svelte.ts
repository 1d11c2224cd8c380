// Downloads that ended while this page was open. Downloads that had ended before are old news.
import type { Download, DownloadsResponse } from "./types";

export class DownloadOutcomes {
  /** Downloads that failed and were neither retried nor dismissed. */
  failed = $state.raw<readonly Download[]>([]);
  /** Ids of failed downloads that are not reported. */
  readonly #ignored = new Set<number>();
  #active: ReadonlySet<number> | undefined;

  /** Takes a new state of the queue; returns the models that arrived since the last one. */
  update({ downloads }: DownloadsResponse): string[] {
    const before = this.#active;
    const arrived = downloads.filter((one) => one.state === "done" && before?.has(one.id)).map((one) => one.model);
    for (const { id, state } of downloads) {
      if (state !== "failed") this.#ignored.delete(id);
      else if (before === undefined) this.#ignored.add(id);
    }
    this.failed = downloads.filter((one) => one.state === "failed" && !this.#ignored.has(one.id));
    this.#active = new Set(downloads.filter((one) => one.state === "running" || one.state === "queued").map((one) => one.id));
    return arrived;
  }

  dismiss(id: number): void {
    this.#ignored.add(id);
    this.failed = this.failed.filter((one) => one.id !== id);
  }
}

export const downloadOutcomes = new DownloadOutcomes();
