// The last answer of this page, for the status bar.
import type { Usage } from "./chats";

class Activity {
  last = $state.raw<Usage | undefined>(undefined);
  /** Tokens of the shown chat, and the context size of its model. */
  context = $state.raw<{ used: number; room: number | undefined } | undefined>(undefined);

  answered(usage: Usage | undefined): void {
    if (usage !== undefined) this.last = usage;
  }
}

export const activity = new Activity();
