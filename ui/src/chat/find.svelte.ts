// Finding words in one chat: in all of its branch, not only in what is drawn.
import type { Message } from "../api/chats";
import type { Conversation } from "./conversation.svelte";

/** Ids of the messages that have a text, in order. */
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

  /** Looks again; the last message that fits comes first, as chats are read from their end. */
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
