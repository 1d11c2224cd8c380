// Short news with something to do: undo, open. What needs no act is no toast.

export interface Toast {
  id: number;
  text: string;
  tone?: "plain" | "error";
  action?: { label: string; run: () => void } | undefined;
}

const SHOWN_MS = 7000;

class Toasts {
  list = $state.raw<readonly Toast[]>([]);
  #next = 1;

  /** Shows it for a while; errors stay until they are closed. */
  show(toast: Omit<Toast, "id">): void {
    const id = this.#next;
    this.#next += 1;
    this.list = [...this.list.slice(-2), { ...toast, id }];
    if (toast.tone !== "error") setTimeout(() => this.close(id), SHOWN_MS);
  }

  error(text: string): void {
    this.show({ text, tone: "error" });
  }

  close(id: number): void {
    this.list = this.list.filter((toast) => toast.id !== id);
  }
}

export const toasts = new Toasts();
