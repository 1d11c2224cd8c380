// An answer that grows by deltas. Deltas are collected here and shown from time to time, not one by one.
import type { ChatLine, Message, Step } from "../api/chats";

export class Streamed {
  dirty = false;
  #steps: readonly Step[];
  #text: string;
  #thinking: string;
  #thinkingSince: number | undefined;
  #thinkingMs: number;

  constructor(
    readonly base: Message,
    now: number,
  ) {
    this.#steps = base.steps ?? [];
    this.#text = base.content;
    this.#thinking = base.thinking ?? "";
    this.#thinkingMs = base.thinking_ms ?? 0;
    this.#thinkingSince = this.#thinking !== "" && this.#text === "" ? now - this.#thinkingMs : undefined;
  }

  /** Adds a delta or a step; returns whether there is something new to show. */
  take(line: ChatLine, now: number): boolean {
    if (line.step !== undefined) this.#takeStep(line.step.index, line.step.step);
    else if (line.thinking !== undefined) {
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

  /** A new step has the texts so far, so the answer begins again without them. */
  #takeStep(index: number, step: Step): void {
    if (index < this.#steps.length) {
      this.#steps = this.#steps.with(index, step);
      return;
    }
    this.#steps = [...this.#steps, step];
    this.#text = this.#thinking = "";
    this.#thinkingSince = undefined;
    this.#thinkingMs = 0;
  }

  /** The current message. */
  message(): Message {
    this.dirty = false;
    const { thinking: _thinking, thinking_ms: _ms, steps: _steps, ...base } = this.base;
    const thinking = this.#thinking === "" ? {} : { thinking: this.#thinking, thinking_ms: Math.round(this.#thinkingMs) };
    const steps = this.#steps.length === 0 ? {} : { steps: [...this.#steps] };
    return { ...base, content: this.#text, ...thinking, ...steps };
  }
}
