// State of the download queue: progress, sources, and actions.
import { downloads, type DownloadsApi } from "../../api/downloads";
import { models, type ModelsApi } from "../../api/models";
import type { Download, DownloadsResponse } from "../../api/types";

/** A host with its speed. */
export interface Source {
  host: string;
  bytesPerSecond: number;
  models: string[];
}

export class Downloads {
  status = $state.raw<DownloadsResponse | undefined>(undefined);
  error = $state.raw<unknown>(undefined);
  busy = $state.raw<readonly number[]>([]);
  /** Why chats with a downloaded model fail, by the id of the download. */
  templateProblems = $state.raw<Readonly<Record<number, string>>>({});
  /** Ids of the downloads with described models. */
  readonly #described = new Set<number>();

  constructor(
    private readonly api: DownloadsApi = downloads,
    private readonly show: ModelsApi["show"] = models.show,
  ) {}

  /** Unfinished downloads, in order. */
  get queue(): Download[] {
    return (this.status?.downloads ?? []).filter((one) => one.state !== "done" && !(one.state === "stopped"));
  }

  /** Finished downloads, and stopped ones whose data is kept. */
  get past(): Download[] {
    return (this.status?.downloads ?? []).filter((one) => one.state === "done" || one.state === "stopped");
  }

  get running(): Download[] {
    return this.queue.filter((one) => one.state === "running" || one.state === "queued");
  }

  get bytesPerSecond(): number {
    return this.queue.reduce((sum, one) => sum + (one.state === "running" ? one.bytes_per_second : 0), 0);
  }

  /** Bytes left to download in the queue. */
  get missingBytes(): number {
    return this.queue.reduce((sum, one) => sum + Math.max(0, one.total - one.completed), 0);
  }

  /** Active hosts, the fastest first. */
  get sources(): Source[] {
    const byHost = new Map<string, Source>();
    for (const { source, state, bytes_per_second, model } of this.queue) {
      if (!source || state !== "running") continue;
      const entry = byHost.get(source) ?? { host: source, bytesPerSecond: 0, models: [] };
      byHost.set(source, { ...entry, bytesPerSecond: entry.bytesPerSecond + bytes_per_second, models: [...entry.models, model] });
    }
    return [...byHost.values()].sort((a, b) => b.bytesPerSecond - a.bytesPerSecond);
  }

  hear(status: DownloadsResponse): void {
    this.status = status;
    for (const one of status.downloads) if (one.state === "done") void this.#describe(one);
  }

  /** Whether all bytes have arrived and are being verified. */
  checking(download: Download): boolean {
    return download.state === "running" && download.total > 0 && download.completed >= download.total;
  }

  pause = (one: Download) => this.#act(one.id, () => this.api.pause(one.id));
  resume = (one: Download) => this.#act(one.id, () => this.api.resume(one.id));
  /** Downloads a model that this version cannot run. */
  force = (one: Download) => this.#act(one.id, () => this.api.force(one.id));
  stop = (one: Download) => this.#act(one.id, () => this.api.cancel(one.id));
  discard = (one: Download) => this.#act(one.id, () => this.api.discard(one.id));
  cap = (bytesPerSecond: number | null) => this.#act(-1, () => this.api.cap(bytesPerSecond));

  async pauseAll(): Promise<void> {
    for (const one of this.running) await this.pause(one);
  }

  async resumeAll(): Promise<void> {
    for (const one of this.queue.filter((one) => one.state === "paused")) await this.resume(one);
  }

  /** Moves a download by one place in the queue. */
  async move(one: Download, steps: number): Promise<void> {
    const to = this.queue[this.queue.indexOf(one) + steps];
    if (to) await this.place(one, to);
  }

  /** Moves a download to the place of another one. */
  async place(one: Download, other: Download): Promise<void> {
    const position = (this.status?.downloads ?? []).indexOf(other);
    if (position >= 0 && one.id !== other.id) await this.#act(one.id, () => this.api.move(one.id, position));
  }

  async #describe({ id, model }: Download): Promise<void> {
    if (this.#described.has(id)) return;
    this.#described.add(id);
    try {
      const { template_problem } = await this.show(model);
      if (template_problem !== undefined) this.templateProblems = { ...this.templateProblems, [id]: template_problem };
    } catch {
      // The model may have been deleted since.
    }
  }

  async #act(id: number, work: () => Promise<DownloadsResponse>): Promise<void> {
    this.busy = [...this.busy, id];
    try {
      this.status = await work();
      this.error = undefined;
    } catch (error) {
      this.error = error;
    } finally {
      this.busy = this.busy.filter((one) => one !== id);
    }
  }
}
