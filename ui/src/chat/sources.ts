// Passages of documents that were sent with a question, and those that its answer names.
import type { Message, Sources } from "../api/chats";

/** A mark of an answer: `[1]`, or several numbers in one, `[1, 3]`. Some models write wide brackets. */
const MARK = /(?:\[|【)\s*(\d{1,3}(?:\s*[,，、]\s*\d{1,3})*)\s*(?:\]|】)/gu;

/** The numbers of passages that a text names, each once, in ascending order. Numbers above `count` name no passage. */
export function citedNumbers(text: string, count: number): number[] {
  const found = new Set<number>();
  for (const [, list = ""] of text.matchAll(MARK)) {
    for (const number of list.split(/[,，、]/).map(Number)) if (number >= 1 && number <= count) found.add(number);
  }
  return [...found].sort((a, b) => a - b);
}

/** The passages that were sent with the question of an answer. */
export function sourcesOf(answer: Message, messages: readonly Message[]): Sources | undefined {
  return messages.find((one) => one.id === answer.parent)?.sources;
}
