// Search within one chat: in the whole branch, not only in the rendered messages.
import type { Message } from "../api/chats";
import type { Conversation } from "./conversation.svelte";
import { allText } from "./toolSteps";

/** One occurrence of the searched text. */
export interface Match {
  message: string;
  /** Number of occurrences before it in the message. */
  nth: number;
}

/** Positions of a text, in any case, without overlaps. */
export function occurrences(text: string, wanted: string): number[] {
  const lower = wanted.trim().toLowerCase();
  if (lower === "") return [];
  // Few letters change their length with their case; then positions would not fit.
  const lowered = text.toLowerCase();
  const source = lowered.length === text.length ? lowered : text;
  const found: number[] = [];
  for (let at = source.indexOf(lower); at >= 0; at = source.indexOf(lower, at + lower.length)) found.push(at);
  return found;
}

/** Occurrences of a text in messages, in order. */
export function matchesIn(messages: readonly Message[], text: string): Match[] {
  return messages.flatMap((message) => occurrences(allText(message), text).map((_, nth) => ({ message: message.id, nth })));
}

export class Find {
  text = $state("");
  found = $state.raw<readonly Match[]>([]);
  at = $state(0);

  constructor(readonly conversation: Conversation) {}

  get current(): Match | undefined {
    return this.found[this.at];
  }

  /** Searches again. The last match is selected first, because chats are read from the end. */
  async look(): Promise<void> {
    const text = this.text;
    while (text !== "" && text === this.text && (await this.conversation.back()));
    if (text !== this.text) return;
    this.found = matchesIn(this.conversation.messages, text);
    this.at = Math.max(0, this.found.length - 1);
  }

  step(by: 1 | -1): void {
    if (this.found.length > 0) this.at = (this.at + by + this.found.length) % this.found.length;
  }
}
