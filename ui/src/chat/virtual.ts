// Virtual scrolling of a long chat: measured heights, estimates for the others, and the visible window.

const MEASURES_KEPT = 20_000;

export class Heights {
  #measured = new Map<string, number>();
  #offsets: number[] = [0];
  #ids: readonly string[] = [];
  #valid = false;

  constructor(readonly guessPx: number) {}

  /** Sets the items, in order. */
  items(ids: readonly string[]): void {
    if (ids === this.#ids) return;
    this.#ids = ids;
    this.#valid = false;
    if (this.#measured.size > MEASURES_KEPT) this.#measured.clear();
  }

  /** Stores a measured height; returns the difference from the height used before. */
  set(id: string, heightPx: number): number {
    const before = this.#measured.get(id) ?? this.guessPx;
    if (before === heightPx && this.#measured.has(id)) return 0;
    this.#measured.set(id, heightPx);
    this.#valid = false;
    return heightPx - before;
  }

  /** Discards all heights, because the width changed. */
  clear(): void {
    this.#measured.clear();
    this.#valid = false;
  }

  /** Offset of each item; the last entry is the total height. */
  get offsets(): readonly number[] {
    if (!this.#valid) {
      const offsets = new Array<number>(this.#ids.length + 1);
      let at = 0;
      this.#ids.forEach((id, index) => {
        offsets[index] = at;
        at += this.#measured.get(id) ?? this.guessPx;
      });
      offsets[this.#ids.length] = at;
      this.#offsets = offsets;
      this.#valid = true;
    }
    return this.#offsets;
  }

  get totalPx(): number {
    return this.offsets.at(-1) ?? 0;
  }

  /** The item at a vertical position. */
  at(topPx: number): number {
    const offsets = this.offsets;
    let low = 0;
    let high = Math.max(0, this.#ids.length - 1);
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((offsets[middle] ?? 0) <= topPx) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  /** Items that intersect a window, `[from, to)`. */
  range(topPx: number, bottomPx: number): [number, number] {
    if (this.#ids.length === 0) return [0, 0];
    return [this.at(Math.max(0, topPx)), Math.min(this.#ids.length, this.at(Math.max(0, bottomPx)) + 1)];
  }
}
