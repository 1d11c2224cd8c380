// Something that cannot be undone is done a few seconds later; until then it can be taken back.

/** How long there is time to think again. */
export const GRACE_MS = 7_000;

/** One thing that waits. */
export interface Waiting {
  key: string;
  label: string;
}

/** Things that wait for their time. */
export class Deferred {
  waiting = $state.raw<Waiting[]>([]);
  #timers = new Map<string, { timer: ReturnType<typeof setTimeout>; run: () => Promise<void> }>();

  constructor(private readonly graceMs = GRACE_MS) {}

  /** Does it after the time of grace, unless it is taken back. */
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

  /** Does all that waits: whoever leaves a screen has had the time to think. */
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
