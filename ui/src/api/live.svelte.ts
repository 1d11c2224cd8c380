// Server state that the daemon pushes. There is one stream per path, shared by its watchers; it is open while there is a watcher
// and the page is visible. A browser allows six connections to a server, so a hidden page closes its streams.
import { platform } from "../platform";
import { ApiError, stream } from "./client";
import { onRenewed } from "./session";

const RETRY_MS = [500, 1000, 2000, 5000];
const HIDDEN_MS = 5000;

export class Live<T> {
  value = $state.raw<T | undefined>(undefined);
  error = $state.raw<ApiError | undefined>(undefined);
  #watchers = 0;
  #abort: AbortController | undefined;
  #listeners = new Set<(line: T) => void>();
  #again = new Set<() => void>();
  /** Whether lines may have been missed. */
  #missed = false;
  /** Whether the daemon refused the request, which is then not repeated. */
  #refused = false;

  constructor(
    readonly path: string,
    private readonly open: typeof stream<T> = stream<T>,
  ) {}

  /** Watches until the returned function is called. `listener` gets each line. `again` is called when the stream was reopened,
   * because changes in between may have been missed. */
  watch(listener?: (line: T) => void, again?: () => void): () => void {
    if (listener) this.#listeners.add(listener);
    if (again) this.#again.add(again);
    this.#watchers += 1;
    if (this.#watchers === 1) this.#start();
    let left = false;
    return () => {
      if (left) return;
      left = true;
      if (listener) this.#listeners.delete(listener);
      if (again) this.#again.delete(again);
      this.#watchers -= 1;
      if (this.#watchers === 0) this.#stop();
    };
  }

  #start(): void {
    if (this.#abort !== undefined || this.#watchers === 0) return;
    this.#refused = false;
    const abort = new AbortController();
    this.#abort = abort;
    void this.#run(abort.signal);
  }

  /** Opens the stream again if the daemon refused it. */
  retry(): void {
    if (!this.#refused) return;
    this.#abort = undefined;
    this.#missed = true;
    this.#start();
  }

  #stop(): void {
    this.#missed = this.#watchers > 0;
    this.#abort?.abort();
    this.#abort = undefined;
  }

  async #run(signal: AbortSignal): Promise<void> {
    let failures = 0;
    const opened = (): void => {
      this.error = undefined;
      if (this.#missed) for (const again of this.#again) again();
      this.#missed = false;
    };
    while (!signal.aborted) {
      try {
        for await (const line of this.open("GET", this.path, { signal, opened, stays: true })) {
          failures = 0;
          this.value = line;
          for (const listener of this.#listeners) listener(line);
        }
      } catch (error) {
        if (signal.aborted) return;
        this.error = error instanceof ApiError ? error : new ApiError(0, String(error));
        // A refused request is not repeated, only an absent daemon is. In a window, a 401 passes: the new token may not be known yet.
        const passes = this.error.status === 401 && platform.kind === "tauri";
        if (this.error.status >= 400 && this.error.status < 500 && !passes) {
          this.#refused = true;
          return;
        }
      }
      this.#missed = true;
      const pause = RETRY_MS[Math.min(failures, RETRY_MS.length - 1)] ?? 5000;
      failures += 1;
      await new Promise((resume) => setTimeout(resume, pause));
    }
  }

  /** Called when the page is hidden or shown. */
  suspend(hidden: boolean): void {
    if (hidden) this.#stop();
    else this.#start();
  }
}

const all = new Map<string, Live<unknown>>();

/** The stream of a path, shared by all callers. */
export function live<T>(path: string): Live<T> {
  let found = all.get(path);
  if (found === undefined) {
    found = new Live<unknown>(path);
    all.set(path, found);
  }
  return found as Live<T>;
}

onRenewed(() => all.forEach((one) => one.retry()));

if (typeof document !== "undefined") {
  let timer: ReturnType<typeof setTimeout> | undefined;
  document.addEventListener("visibilitychange", () => {
    clearTimeout(timer);
    const hidden = document.visibilityState === "hidden";
    // A short look at another tab does not reopen the streams.
    timer = setTimeout(() => all.forEach((one) => one.suspend(hidden)), hidden ? HIDDEN_MS : 0);
  });
}
