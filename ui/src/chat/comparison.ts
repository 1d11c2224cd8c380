// Two answers to one question, shown side by side until the user keeps one.
import type { Message } from "../api/chats";

export interface Comparison {
  /** Id of the question. */
  question: string;
  /** The answers, the first one at first. */
  answers: readonly Message[];
  /** The model of an answer that has not begun yet. */
  awaited?: string | undefined;
}

/** The comparison with a new or changed answer; unchanged if it belongs to another question. */
export function withAnswer(comparison: Comparison, answer: Message): Comparison {
  const at = comparison.answers.findIndex((one) => one.id === answer.id);
  if (at >= 0) return { ...comparison, answers: comparison.answers.with(at, answer) };
  if (answer.parent !== comparison.question || answer.role !== "assistant") return comparison;
  const { question, answers, awaited } = comparison;
  return { question, answers: [...answers, answer], ...(answers.length === 0 ? { awaited } : {}) };
}

/** The version that a shown one is compared with: the one before it, or the next of the first. */
export function otherVersion({ id, versions }: Message): string | undefined {
  const all = versions ?? [];
  const at = all.indexOf(id);
  return all[at - 1] ?? all[at + 1];
}
