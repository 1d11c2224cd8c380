// An answer that grows by deltas. Deltas are collected here and shown from time to time, not one by one.
import type { ChatLine, Message } from "../api/chats";

export class Streamed {
  dirty = false;
  #text: string;
  #thinking: string;
  #thinkingSince: number | undefined;
  #thinkingMs: number;

  constructor(
    readonly base: Message,
    now: number,
  ) {
    this.#text = base.content;
    this.#thinking = base.thinking ?? "";
    this.#thinkingMs = base.thinking_ms ?? 0;
    this.#thinkingSince = this.#thinking !== "" && this.#text === "" ? now - this.#thinkingMs : undefined;
  }

  /** Adds a delta; returns whether there is something new to show. */
  take(line: ChatLine, now: number): boolean {
    if (line.thinking !== undefined) {
      this.#thinkingSince ??= now - this.#thinkingMs;
      this.#thinking += line.thinking;
      this.#thinkingMs = now - this.#thinkingSince;
    } else if (line.text !== undefined) {
      if (this.#thinkingSince !== undefined) {
        this.#thinkingMs = now - this.#thinkingSince;
        this.#thinkingSince = undefined;
      }
      this.#text += line.text;
    } else return false;
    this.dirty = true;
    return true;
  }

  /** The current message. */
  message(): Message {
    this.dirty = false;
    const thinking = this.#thinking === "" ? {} : { thinking: this.#thinking, thinking_ms: Math.round(this.#thinkingMs) };
    return { ...this.base, content: this.#text, ...thinking };
  }
}
