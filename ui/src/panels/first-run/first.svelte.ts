// The first run: what this computer has, where models go, and what to start with, all chosen before anybody asks.
import { downloads, type DownloadsApi } from "../../api/downloads";
import { models, type ModelsApi } from "../../api/models";
import type { DiscoveredVariant, FoundModel, HardwareResponse, UsageResponse } from "../../api/types";
import { said } from "../../i18n";

export type Start = "small" | "balanced" | "found" | "pebble";

/** Models to start with, the preferred first: a quick one, and the best of a family that has room. */
const SMALL = ["qwen3:0.6b", "llama3.2:1b"];
const BALANCED = ["qwen3:8b", "qwen3:4b", "qwen3:1.7b", "llama3.2:3b"];
/** Memory that stays for the context and for other apps. */
const SPARE = 0.75;

export class FirstRun {
  machine = $state.raw<HardwareResponse | undefined>(undefined);
  usage = $state.raw<UsageResponse | undefined>(undefined);
  variants = $state.raw<DiscoveredVariant[]>([]);
  found = $state.raw<FoundModel[] | undefined>(undefined);
  /** Chosen by hand; until then the best choice is. */
  picked = $state<Start | undefined>(undefined);
  error = $state<string | undefined>(undefined);
  busy = $state(false);
  /** How many of the found models are in the library, while they are brought. */
  brought = $state(0);

  constructor(
    private readonly api: { downloads: Pick<DownloadsApi, "add" | "discover">; models: Pick<ModelsApi, "usage" | "scan" | "bring"> } = { downloads, models },
  ) {}

  /** Looks around. Nobody outside of this computer is asked. */
  async look(signal: AbortSignal): Promise<void> {
    const quiet = (work: Promise<void>) => work.catch(() => {});
    await Promise.all([
      quiet(this.api.models.usage().then((usage) => void (this.usage = usage))),
      quiet(this.api.downloads.discover("", true, signal).then((answer) => void (this.variants = answer.models.flatMap((model) => model.variants)))),
      quiet(this.#scan(signal)),
    ]);
    this.found ??= [];
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

  /** Models of other apps that could be used here, and what they take. */
  get usable(): FoundModel[] {
    return (this.found ?? []).filter((model) => model.state === "new");
  }

  get usableBytes(): number {
    return this.usable.reduce((sum, model) => sum + model.size, 0);
  }

  get apps(): string[] {
    return [...new Set(this.usable.map((model) => model.app))];
  }

  /** What there is costs nothing, so that it goes first. */
  get start(): Start {
    if (this.picked) return this.picked;
    if (this.usable.length > 0) return "found";
    return this.small ? "small" : "pebble";
  }

  get variant(): DiscoveredVariant | undefined {
    return this.start === "small" ? this.small : this.start === "balanced" ? this.balanced : undefined;
  }

  /** Does what was chosen. True when the chat can begin; what is downloaded comes meanwhile. */
  async go(signal: AbortSignal): Promise<boolean> {
    this.busy = true;
    this.error = undefined;
    try {
      if (this.variant) await this.api.downloads.add(this.variant.name);
      if (this.start === "found") await this.#bring(signal);
      return true;
    } catch (error) {
      if (!signal.aborted) this.error = said(error);
      return false;
    } finally {
      this.busy = false;
    }
  }

  /** Gives found files a second name in the library: nothing is copied. One that cannot be brought does not keep the others. */
  async #bring(signal: AbortSignal): Promise<void> {
    let last: Error | undefined;
    this.brought = 0;
    for (const { path } of this.usable) {
      try {
        for await (const line of this.api.models.bring({ path, link: true }, signal)) {
          if ("error" in line) throw new Error(String(line.error));
        }
        this.brought += 1;
      } catch (error) {
        if (signal.aborted) throw error;
        last = error instanceof Error ? error : new Error(String(error));
      }
    }
    if (this.brought === 0 && last) throw last;
  }

  async #scan(signal: AbortSignal): Promise<void> {
    for await (const line of this.api.models.scan({ folders: [], apps: true, digests: false }, signal)) {
      if ("status" in line && line.status === "done") this.found = line.models;
    }
  }

  #fits(names: readonly string[]): DiscoveredVariant | undefined {
    const memory = this.machine?.memory;
    const room = memory ? (memory.limit_bytes ?? memory.total_bytes) * SPARE : Infinity;
    const free = this.freeBytes ?? Infinity;
    const known = names.map((name) => this.variants.find((variant) => variant.name === name)).filter((variant) => variant !== undefined);
    return known.find((variant) => variant.size <= room && variant.size <= free);
  }
}
