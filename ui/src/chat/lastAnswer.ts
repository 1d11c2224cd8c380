// Texts that the copy shortcuts use.
import type { Message } from "../api/chats";

export function lastAnswerText(messages: readonly Message[]): string | undefined {
  return messages.findLast((message) => message.role === "assistant" && message.content !== "")?.content;
}

/** The last code block of the last answer that has one. */
export function lastCode(messages: readonly Message[]): string | undefined {
  for (const message of messages.toReversed()) {
    if (message.role !== "assistant") continue;
    const found = [...message.content.matchAll(/^ {0,3}(`{3,}|~{3,})[^\n]*\n([\s\S]*?)^ {0,3}\1[`~]*[ \t]*$/gm)].at(-1);
    if (found?.[2] !== undefined) return found[2].replace(/\n$/, "");
  }
  return undefined;
}
