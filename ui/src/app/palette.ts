// Search of the palette: all words of the query must occur; matches at the start of a word rank higher.

import type { Component } from "svelte";

export interface Entry {
  id: string;
  group: string;
  label: string;
  /** Other words for it, which are found but not shown. */
  words?: string | undefined;
  /** Default: the icon of its group. */
  icon?: Component<{ class?: string }> | undefined;
  combo?: string | undefined;
  run: () => void;
}

/** Rank of a label, smaller is better; `undefined` if it does not match. */
export function rank(label: string, query: string): number | undefined {
  const text = label.toLowerCase();
  let worst = 0;
  for (const word of query.toLowerCase().split(/\s+/).filter(Boolean)) {
    const at = text.indexOf(word);
    if (at < 0) return undefined;
    const starts = at === 0 || /[\s:/._-]/.test(text[at - 1] ?? "");
    worst = Math.max(worst, at === 0 ? 0 : starts ? 1 : 2);
  }
  return worst;
}

/** Matches among the other words rank below all matches of labels. */
const BY_WORDS = 3;

function fitOf({ label, words }: Entry, query: string): number | undefined {
  return rank(label, query) ?? (words !== undefined && rank(`${label} ${words}`, query) !== undefined ? BY_WORDS : undefined);
}

/** Matching entries, the best of each group first; groups keep their order. */
export function matches(entries: readonly Entry[], query: string): Entry[] {
  if (query.trim() === "") return [...entries];
  const groups = [...new Set(entries.map((entry) => entry.group))];
  return entries
    .map((entry) => ({ entry, fit: fitOf(entry, query) }))
    .filter((one): one is { entry: Entry; fit: number } => one.fit !== undefined)
    .sort((a, b) => groups.indexOf(a.entry.group) - groups.indexOf(b.entry.group) || a.fit - b.fit)
    .map((one) => one.entry);
}
