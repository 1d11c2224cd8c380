// Downloads that ended while this page was open. Downloads that had ended before are old news.
import type { Download, DownloadsResponse } from "./types";

/** Whether a download was refused because this version cannot run the model. */
export const isRefused = (one: Download): boolean => one.error?.code === "model_cannot_run";

export class DownloadOutcomes {
  /** Downloads that failed and were neither retried nor dismissed. */
  failed = $state.raw<readonly Download[]>([]);
  /** Refused downloads that the user was not asked about. Those of other clients ask their own users. */
  refused = $state.raw<readonly Download[]>([]);
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
    const failed = downloads.filter((one) => one.state === "failed" && !this.#ignored.has(one.id));
    this.failed = failed.filter((one) => !isRefused(one));
    this.refused = failed.filter((one) => isRefused(one) && one.detached);
    this.#active = new Set(downloads.filter((one) => one.state === "running" || one.state === "queued").map((one) => one.id));
    return arrived;
  }

  dismiss(id: number): void {
    this.#ignored.add(id);
    this.failed = this.failed.filter((one) => one.id !== id);
    this.refused = this.refused.filter((one) => one.id !== id);
  }
}

export const downloadOutcomes = new DownloadOutcomes();
