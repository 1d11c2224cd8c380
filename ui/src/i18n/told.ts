// What the daemon says - errors, reasons - in the language of the UI. It speaks English to all its clients. Here its sentences are found
// again by their fixed parts and said anew; `{}` stands for what changes in one, `{2}` for the second of these. A value that is a reason
// is told, too: one after a colon, a semicolon or a bracket, or one that is marked, `{2*}`; names and paths never are. What is not known
// stays.
import { reason } from "../api/reason";
import { locale, type Language } from "./locale.svelte";

/** A longer text quotes something that is no sentence of the daemon's. */
const MOST_CHARS = 4000;
/** A reason may have a reason. */
const MOST_DEPTH = 5;
/** A sentence with fewer letters than these of its own begins with one word, or it would be found in anything. */
const FEW_LETTERS = 12;

interface Sentence {
  parts: readonly string[];
  said: string;
  letters: number;
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
  const letters = (key: string): number => key.replace(/[^a-z]/gi, "").length;
  return {
    whole: new Map(all),
    tails: all.filter(([key]) => /^[ .;]/.test(key) && !key.includes("{}")),
    open: open.map(([key, said]) => ({ parts: key.split("{}"), said, letters: letters(key) })).toSorted((a, b) => b.letters - a.letters),
  };
}

/** What stands in a sentence where values do. */
function values({ parts, letters }: Sentence, text: string): string[] | undefined {
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
  return letters < FEW_LETTERS && /\s/.test(found[0] ?? "") ? undefined : found;
}

/** Whether the value after a part of a sentence, and before the next, is a reason and no name. */
function isReason(before: string, after: string): boolean {
  return /[:;] $|\($/.test(before) || (before === "" && /^[;,]/.test(after));
}

/** A sentence that is known, as a whole. */
function sentence(known: Table, text: string, depth: number): string | undefined {
  const whole = known.whole.get(text);
  if (whole !== undefined) return whole;
  for (const one of known.open) {
    const found = values(one, text);
    if (found === undefined) continue;
    return one.said.replace(/\{(\d)(\*?)\}/g, (_, digit: string, mark: string) => {
      const place = Number(digit);
      const [value = "", before = "", after = ""] = [found[place - 1], one.parts[place - 1], one.parts[place]];
      return mark !== "" || isReason(before, after) ? translate(known, value, depth + 1) : value;
    });
  }
  const tail = known.tails.find(([end]) => text.endsWith(end));
  return tail === undefined ? undefined : translate(known, text.slice(0, -tail[0].length), depth + 1) + tail[1];
}

export function translate(known: Table, text: string, depth = 0): string {
  if (text === "" || text.length > MOST_CHARS || depth > MOST_DEPTH) return text;
  const told = sentence(known, text, depth);
  if (told !== undefined) return told;
  // Somebody's word, and a reason that is known.
  for (let at = text.indexOf(": "); at >= 0; at = text.indexOf(": ", at + 2)) {
    const after = sentence(known, text.slice(at + 2), depth + 1);
    if (after !== undefined) return `${text.slice(0, at + 2)}${after}`;
  }
  return text;
}

const files = import.meta.glob<Record<string, string>>("./told/*/*.json", { eager: true, import: "default" });
const tables = new Map<Language, Table>();

/** Made when it is asked for the first time. */
function tableOf(language: Language): Table {
  const there = tables.get(language);
  if (there !== undefined) return there;
  const words = Object.entries(files).filter(([path]) => path.startsWith(`./told/${language}/`));
  const made = table(Object.assign({}, ...words.map(([, one]) => one)) as Record<string, string>);
  tables.set(language, made);
  return made;
}

/** A sentence of the daemon's, where it said one. */
export function told<T extends string | undefined>(text: T): T | string {
  return text === undefined ? text : translate(tableOf(locale.current), text);
}

/** What an error says, whatever was thrown. */
export function said(error: unknown): string {
  return told(reason(error));
}
