// Something that a person asked for and waits for: done once at a time, and why it failed is said.
import { reason } from "./reason";

export class Attempt {
  busy = $state(false);
  error = $state<string | undefined>(undefined);

  /** True when the work was done; `error` has why not. Nothing begins while the last is under way. */
  protected async attempt(work: () => Promise<void>): Promise<boolean> {
    if (this.busy) return false;
    this.busy = true;
    this.error = undefined;
    try {
      await work();
      return true;
    } catch (error) {
      this.error = reason(error);
      return false;
    } finally {
      this.busy = false;
    }
  }
}
