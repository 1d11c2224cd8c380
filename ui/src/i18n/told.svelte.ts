// What the daemon says - errors, reasons - in the language of the UI. It speaks English to all its clients. Here its sentences are found
// again by their fixed parts and said anew; `{}` stands for what changes in one, `{2}` for the second of these. What is not known stays.
import { locale, type Language } from "./locale.svelte";

/** A longer text quotes something that is no sentence of the daemon's. */
const MOST_CHARS = 4000;
/** A reason may have a reason. */
const MOST_DEPTH = 5;

interface Sentence {
  parts: readonly string[];
  said: string;
}

export interface Table {
  whole: ReadonlyMap<string, string>;
  /** With values in them; those of which more is fixed come first. */
  open: readonly Sentence[];
  /** What is said after a sentence: advice. */
  tails: readonly (readonly [string, string])[];
}

export function table(words: Record<string, string>): Table {
  const all = Object.entries(words);
  const open = all.filter(([key]) => key.includes("{}"));
  return {
    whole: new Map(all),
    tails: all.filter(([key]) => /^[ .;]/.test(key) && !key.includes("{}")),
    open: open.map(([key, said]) => ({ parts: key.split("{}"), said })).toSorted((a, b) => fixed(b) - fixed(a)),
  };
}

function fixed(sentence: Sentence): number {
  return sentence.parts.reduce((sum, part) => sum + part.length, 0);
}

/** What stands in a sentence where values do. */
function values(parts: readonly string[], text: string): string[] | undefined {
  const [first = "", last = ""] = [parts[0], parts.at(-1)];
  const end = text.length - last.length;
  if (first.length > end || !text.startsWith(first) || !text.endsWith(last)) return undefined;
  const found: string[] = [];
  let at = first.length;
  for (const part of parts.slice(1, -1)) {
    const next = text.indexOf(part, at);
    if (next < 0 || next + part.length > end) return undefined;
    found.push(text.slice(at, next));
    at = next + part.length;
  }
  found.push(text.slice(at, end));
  return found;
}

export function translate(known: Table, text: string, depth = 0): string {
  if (text.length > MOST_CHARS || depth > MOST_DEPTH) return text;
  const whole = known.whole.get(text);
  if (whole !== undefined) return whole;
  for (const { parts, said } of known.open) {
    const found = values(parts, text);
    if (found !== undefined) return said.replace(/\{(\d)\}/g, (_, place: string) => translate(known, found[Number(place) - 1] ?? "", depth + 1));
  }
  const tail = known.tails.find(([end]) => text.endsWith(end));
  if (tail !== undefined) return translate(known, text.slice(0, -tail[0].length), depth + 1) + tail[1];
  // Somebody's word, and a reason that may be known.
  const at = text.indexOf(": ");
  if (at < 0) return text;
  const reason = text.slice(at + 2);
  const told = translate(known, reason, depth + 1);
  return told === reason ? text : `${text.slice(0, at)}：${told}`;
}

const files = import.meta.glob<Record<string, string>>("./told/*/*.json", { import: "default" });
let learned = $state.raw<Partial<Record<Language, Table>>>({});

/** Fetches what a language needs; until it is here, the daemon's own words stand. */
export async function learn(language: Language): Promise<void> {
  const here = Object.entries(files).filter(([path]) => path.startsWith(`./told/${language}/`));
  if (here.length === 0 || learned[language] !== undefined) return;
  const words = await Promise.all(here.map(([, file]) => file()));
  learned = { ...learned, [language]: table(Object.assign({}, ...words) as Record<string, string>) };
}

/** A sentence of the daemon's, where it said one. */
export function told<T extends string | undefined>(text: T): T | string {
  const known = learned[locale.current];
  return known === undefined || text === undefined ? text : translate(known, text);
}

/** What an error says, whatever was thrown. */
export function said(error: unknown): string {
  return told(error instanceof Error ? error.message : String(error));
}
