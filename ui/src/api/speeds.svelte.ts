// Speeds of installed models on this computer: measured ones, and estimates until a model has run.
import { get } from "./client";
import { sameModel } from "./models.svelte";
import type { InstalledSpeed, Speed, SpeedsResponse } from "./types";

/** Pause between requests while the daemon measures its kernels. */
const MEASURING_MS = 1_000;
/** Most of these requests: a busy daemon measures later. */
const MAX_REPEATS = 15;

export class Speeds {
  models = $state.raw<readonly InstalledSpeed[]>([]);
  /** Whether the daemon measures its kernels: estimates follow. */
  measuring = $state(false);
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly ask: () => Promise<SpeedsResponse> = () => get<SpeedsResponse>("/app/speeds")) {}

  /** Requests the speeds, again while the daemon measures. Without them, the interface shows none. */
  async refresh(repeats = MAX_REPEATS): Promise<void> {
    clearTimeout(this.#timer);
    try {
      const { models, measuring } = await this.ask();
      this.models = models;
      this.measuring = measuring && repeats > 0;
    } catch {
      this.measuring = false;
    }
    clearTimeout(this.#timer);
    if (this.measuring) this.#timer = setTimeout(() => void this.refresh(repeats - 1), MEASURING_MS);
  }

  of(model: string | undefined): Speed | undefined {
    return this.models.find((one) => sameModel(one.model, model))?.speed;
  }
}

export const speeds = new Speeds();
