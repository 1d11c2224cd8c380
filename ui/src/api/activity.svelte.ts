// The last answer that this page saw, for the status bar.
import type { MessageStats } from "./chats";

class Activity {
  last = $state.raw<MessageStats | undefined>(undefined);
  /** Tokens that the shown chat takes, and the room that its model has. */
  context = $state.raw<{ used: number; room: number | undefined } | undefined>(undefined);

  answered(stats: MessageStats | undefined): void {
    if (stats !== undefined) this.last = stats;
  }
}

export const activity = new Activity();
