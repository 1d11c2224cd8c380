// Colours of code. The highlighter is loaded with the first code block that is seen; until then code is plain.
import type { HLJSApi } from "highlight.js";
import { late } from "./late.svelte";

const MOST_CHARS = 60_000;
/** Pieces of code that are kept coloured: an item of a list that grows is drawn again and again with those in it. */
const MOST_KEPT = 16;
const kept = new Map<string, string>();

let highlighter: HLJSApi | undefined;
let loading: Promise<void> | undefined;

export function loadHighlighter(): Promise<void> {
  loading ??= import("./languages").then(({ default: loaded }) => {
    highlighter = loaded;
    late.version += 1;
  });
  return loading;
}

function escape(text: string): string {
  return text.replace(/[&<>]/g, (sign) => `&#${sign.charCodeAt(0)};`);
}

/** HTML of a piece of code; only spans with classes, all else escaped. */
export function highlighted(code: string, language: string): string {
  void late.version;
  if (highlighter === undefined) {
    if (language !== "") {
      void loadHighlighter();
      late.missed += 1;
    }
    return escape(code);
  }
  const name = language.toLowerCase();
  if (highlighter.getLanguage(name) === undefined || code.length > MOST_CHARS) return escape(code);
  const key = `${name} ${code}`;
  const html = kept.get(key) ?? onlySpans(highlighter.highlight(code, { language: name, ignoreIllegals: true }).value, code);
  // The last used come last, the first is forgotten.
  kept.delete(key);
  kept.set(key, html);
  if (kept.size > MOST_KEPT) kept.delete(kept.keys().next().value ?? "");
  return html;
}

/** The highlighter's HTML where it has no tags but spans with a class, which is all that it should make; else the code, escaped. */
export function onlySpans(html: string, code: string): string {
  return /[<>]/.test(html.replace(/<span class="[\w -]*">|<\/span>/g, "")) ? escape(code) : html;
}
