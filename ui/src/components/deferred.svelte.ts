// Actions that cannot be undone run after a few seconds; until then they can be cancelled.

/** Delay for an undo. */
export const GRACE_MS = 7_000;

/** A pending action. */
export interface Waiting {
  key: string;
  label: string;
}

/** Pending actions. */
export class Deferred {
  waiting = $state.raw<Waiting[]>([]);
  #timers = new Map<string, { timer: ReturnType<typeof setTimeout>; run: () => Promise<void> }>();

  constructor(private readonly graceMs = GRACE_MS) {}

  /** Runs an action after the delay, unless it is cancelled. */
  later(key: string, label: string, run: () => Promise<void>): void {
    this.takeBack(key);
    this.waiting = [...this.waiting, { key, label }];
    this.#timers.set(key, { run, timer: setTimeout(() => void this.#now(key), this.graceMs) });
  }

  has(key: string): boolean {
    return this.waiting.some((one) => one.key === key);
  }

  takeBack(key: string): void {
    clearTimeout(this.#timers.get(key)?.timer);
    this.#timers.delete(key);
    this.waiting = this.waiting.filter((one) => one.key !== key);
  }

  /** Runs all pending actions, when the user leaves the screen. */
  async flush(): Promise<void> {
    await Promise.all([...this.#timers.keys()].map((key) => this.#now(key)));
  }

  async #now(key: string): Promise<void> {
    const found = this.#timers.get(key);
    clearTimeout(found?.timer);
    this.#timers.delete(key);
    try {
      await found?.run();
    } finally {
      this.waiting = this.waiting.filter((one) => one.key !== key);
    }
  }
}
