// The last answer of this page, for the status bar.
import type { MessageStats } from "./chats";

class Activity {
  last = $state.raw<MessageStats | undefined>(undefined);
  /** Tokens of the shown chat, and the context size of its model. */
  context = $state.raw<{ used: number; room: number | undefined } | undefined>(undefined);

  answered(stats: MessageStats | undefined): void {
    if (stats !== undefined) this.last = stats;
  }
}

export const activity = new Activity();
