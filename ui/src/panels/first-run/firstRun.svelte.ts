// State of the first run: the computer, the model folder, and the first model, each with a default.
import { downloads, type DownloadsApi } from "../../api/downloads";
import { isGoodDefault, roomOf } from "../../api/hardware";
import { models, type ModelsApi } from "../../api/models";
import type { DiscoveredVariant, FoundModel, HardwareResponse, UsageResponse } from "../../api/types";

export type Start = "small" | "balanced" | "found" | "pebble";

/** First models, preferred ones first: a fast one, and the best of a family that fits. */
const SMALL = ["qwen3:0.6b", "llama3.2:1b"];
const BALANCED = ["qwen3:8b", "qwen3:4b", "qwen3:1.7b", "llama3.2:3b"];

export class FirstRun {
  machine = $state.raw<HardwareResponse | undefined>(undefined);
  usage = $state.raw<UsageResponse | undefined>(undefined);
  variants = $state.raw<DiscoveredVariant[]>([]);
  found = $state.raw<FoundModel[] | undefined>(undefined);
  /** The user's choice; until then the best one is selected. */
  picked = $state<Start | undefined>(undefined);
  error = $state.raw<unknown>(undefined);
  busy = $state(false);
  /** Number of found models that have been imported so far. */
  imported = $state(0);

  constructor(
    private readonly api: { downloads: Pick<DownloadsApi, "add" | "discover">; models: Pick<ModelsApi, "usage" | "scan" | "importFile"> } = { downloads, models },
  ) {}

  /** Collects the information, without contacting other computers. */
  async look(signal: AbortSignal): Promise<void> {
    const quiet = (work: Promise<void>) => work.catch(() => {});
    await Promise.all([
      quiet(this.api.models.usage().then((usage) => void (this.usage = usage))),
      quiet(this.api.downloads.discover("", true, signal).then((answer) => void (this.variants = answer.models.flatMap((model) => model.variants)))),
      quiet(this.#scan(signal)),
    ]);
    this.found ??= [];
  }

  /** Requests the catalogue again: the daemon has measured its kernels, so it has estimates. */
  async speedsChanged(signal: AbortSignal): Promise<void> {
    const answer = await this.api.downloads.discover("", true, signal).catch(() => undefined);
    if (answer) this.variants = answer.models.flatMap((model) => model.variants);
  }

  get freeBytes(): number | undefined {
    return this.usage?.libraries.find((one) => one.library.role === "own")?.free_bytes ?? undefined;
  }

  get folder(): string | undefined {
    return this.usage?.libraries.find((one) => one.library.role === "own")?.library.path;
  }

  get small(): DiscoveredVariant | undefined {
    return this.#fits(SMALL);
  }

  get balanced(): DiscoveredVariant | undefined {
    const balanced = this.#fits(BALANCED);
    return balanced?.name === this.small?.name ? undefined : balanced;
  }

  /** Models of other apps that can be imported. */
  get usable(): FoundModel[] {
    return (this.found ?? []).filter((model) => model.state === "new");
  }

  get usableBytes(): number {
    return this.usable.reduce((sum, model) => sum + model.size, 0);
  }

  get apps(): string[] {
    return [...new Set(this.usable.map((model) => model.app))];
  }

  /** Models that are already here come first: they cost nothing. */
  get start(): Start {
    if (this.picked) return this.picked;
    if (this.usable.length > 0) return "found";
    return this.small ? "small" : "pebble";
  }

  get variant(): DiscoveredVariant | undefined {
    return this.start === "small" ? this.small : this.start === "balanced" ? this.balanced : undefined;
  }

  /** Starts the chosen option. Returns whether the chat can begin; a download continues in the background. */
  async go(signal: AbortSignal): Promise<boolean> {
    this.busy = true;
    this.error = undefined;
    try {
      if (this.variant) await this.api.downloads.add(this.variant.name);
      if (this.start === "found") await this.#importFound(signal);
      return true;
    } catch (error) {
      if (!signal.aborted) this.error = error;
      return false;
    } finally {
      this.busy = false;
    }
  }

  /** Links found files into the library without copying. A file that fails does not stop the others. */
  async #importFound(signal: AbortSignal): Promise<void> {
    let last: Error | undefined;
    this.imported = 0;
    for (const { path } of this.usable) {
      try {
        for await (const _ of this.api.models.importFile({ path, link: true }, signal));
        this.imported += 1;
      } catch (error) {
        if (signal.aborted) throw error;
        last = error instanceof Error ? error : new Error(String(error));
      }
    }
    if (this.imported === 0 && last) throw last;
  }

  async #scan(signal: AbortSignal): Promise<void> {
    for await (const line of this.api.models.scan({ folders: [], apps: true, digests: false }, signal)) {
      if ("status" in line && line.status === "done") this.found = line.models;
    }
  }

  /** The first of these that is a good default, else the first that fits. */
  #fits(names: readonly string[]): DiscoveredVariant | undefined {
    const room = this.machine && roomOf(this.machine);
    const free = this.freeBytes ?? Infinity;
    const found = names.map((name) => this.variants.find((variant) => variant.name === name));
    const available = found.filter((variant) => variant !== undefined).filter((variant) => variant.size <= free);
    const withoutSpeed = ({ size }: DiscoveredVariant) => ({ size });
    return available.find((variant) => isGoodDefault(variant, room)) ?? available.filter((variant) => isGoodDefault(withoutSpeed(variant), room)).at(-1);
  }
}
