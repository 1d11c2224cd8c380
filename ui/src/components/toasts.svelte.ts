// Short messages, some with an action such as undo. A message that needs no attention is no toast.

export interface Toast {
  id: number;
  text: string;
  tone?: "plain" | "error";
  action?: { label: string; run: () => void } | undefined;
}

const SHOWN_MS = 7000;
const ERROR_SHOWN_MS = 15_000;

export class Toasts {
  list = $state.raw<readonly Toast[]>([]);
  #next = 1;
  readonly #timers = new Map<number, ReturnType<typeof setTimeout>>();

  /** Shows a toast for a while; errors stay longer. */
  show(toast: Omit<Toast, "id">): void {
    const shown = { ...toast, id: this.#next };
    this.#next += 1;
    this.list = [...this.list.slice(-2), shown];
    this.release(shown);
  }

  error(text: string): void {
    this.show({ text, tone: "error" });
  }

  /** Keeps a toast open while the pointer or the focus is on it. */
  hold(toast: Toast): void {
    clearTimeout(this.#timers.get(toast.id));
  }

  /** Starts the time of a toast, again after it was held. */
  release(toast: Toast): void {
    this.hold(toast);
    const time = toast.tone === "error" ? ERROR_SHOWN_MS : SHOWN_MS;
    this.#timers.set(toast.id, setTimeout(() => this.close(toast.id), time));
  }

  close(id: number): void {
    clearTimeout(this.#timers.get(id));
    this.#timers.delete(id);
    this.list = this.list.filter((toast) => toast.id !== id);
  }
}

export const toasts = new Toasts();
