// An action of the user with its progress and error; one at a time.
import { untrack } from "svelte";

export class Attempt {
  busy = $state(false);
  error = $state.raw<unknown>(undefined);

  /** Runs the action unless one is running. Returns whether it succeeded; `error` has the cause of a failure. */
  protected async attempt(work: () => Promise<void>): Promise<boolean> {
    // An effect that begins an action must not depend on its end, or it would begin the action again.
    if (untrack(() => this.busy)) return false;
    this.busy = true;
    this.error = undefined;
    try {
      await work();
      return true;
    } catch (error) {
      this.error = error;
      return false;
    } finally {
      this.busy = false;
    }
  }
}
