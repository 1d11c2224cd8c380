// Passages of documents that were sent with questions, and those that an answer names.
import type { CollectionHit, Message, Sources } from "../api/chats";

/** A passage with its number, which is unique in a branch. */
export interface Passage {
  number: number;
  hit: CollectionHit;
  sources: Sources;
}

export function passagesOf(sources: Sources): Passage[] {
  return sources.hits.map((hit, at) => ({ number: sources.first + at, hit, sources }));
}

/** A mark of an answer: `[1]`, or several numbers in one, `[1, 3]`. Some models write wide brackets. */
const MARK = /(?:\[|【)\s*(\d{1,4}(?:\s*[,，、]\s*\d{1,4})*)\s*(?:\]|】)/gu;
const CODE = /```[\s\S]*?(?:```|$)|`[^`\n]*`/g;

/** The numbers in marks of a text, each once. Code has none. */
export function citedNumbers(text: string): Set<number> {
  const found = new Set<number>();
  for (const [, list = ""] of text.replace(CODE, "").matchAll(MARK)) for (const number of list.split(/[,，、]/)) found.add(Number(number));
  return found;
}

/** The passages that an answer names, in their order: those of its question, and of earlier ones of its branch. */
export function citedPassages(answer: Message, messages: readonly Message[]): Passage[] {
  const question = messages.findIndex((one) => one.id === answer.parent);
  const all = messages.slice(0, question + 1).flatMap(({ sources }) => (sources ? passagesOf(sources) : []));
  if (all.length === 0) return [];
  const cited = citedNumbers(answer.content);
  return all.filter(({ number }) => cited.has(number));
}
