// Search within one chat: in the whole branch, not only in the rendered messages.
import type { Message } from "../api/chats";
import type { Conversation } from "./conversation.svelte";

/** Ids of the messages that contain a text, in order. */
export function holding(messages: readonly Message[], text: string): string[] {
  const wanted = text.trim().toLowerCase();
  if (wanted === "") return [];
  return messages.filter((message) => message.content.toLowerCase().includes(wanted)).map((message) => message.id);
}

export class Find {
  text = $state("");
  found = $state.raw<readonly string[]>([]);
  at = $state(0);

  constructor(readonly conversation: Conversation) {}

  get current(): string | undefined {
    return this.found[this.at];
  }

  /** Searches again. The last match is selected first, because chats are read from the end. */
  async look(): Promise<void> {
    const text = this.text;
    while (text !== "" && text === this.text && (await this.conversation.back()));
    if (text !== this.text) return;
    this.found = holding(this.conversation.messages, text);
    this.at = Math.max(0, this.found.length - 1);
  }

  step(by: 1 | -1): void {
    if (this.found.length > 0) this.at = (this.at + by + this.found.length) % this.found.length;
  }
}
