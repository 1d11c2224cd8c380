// Work of any screen that is lost if the page closes, for example files that are being sent.

class UnfinishedWork {
  readonly #checks: (() => boolean)[] = [];

  /** Adds a check. A module does this when it is loaded: before that, it has no work. */
  add(check: () => boolean): void {
    this.#checks.push(check);
  }

  /** Whether any check finds work. */
  exists(): boolean {
    return this.#checks.some((check) => check());
  }
}

export const unfinishedWork = new UnfinishedWork();
