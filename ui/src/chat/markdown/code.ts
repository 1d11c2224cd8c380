// Syntax highlighting. The highlighter is loaded with the first visible code block; until then code is plain.
import type { HLJSApi } from "highlight.js";
import { late } from "./lazyParts.svelte";

const MOST_CHARS = 60_000;
/** Size of the cache of highlighted code: items of a growing list are rendered again and again. */
const MAX_CACHED = 16;
const cache = new Map<string, string>();

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

/** Highlights code; the HTML has only spans with classes, everything else is escaped. */
export function highlighted(code: string, language: string): string {
  void late.version;
  if (highlighter === undefined) {
    if (language !== "") void loadHighlighter();
    return escape(code);
  }
  const name = language.toLowerCase();
  if (highlighter.getLanguage(name) === undefined || code.length > MOST_CHARS) return escape(code);
  const key = `${name} ${code}`;
  const html = cache.get(key) ?? onlySpans(highlighter.highlight(code, { language: name, ignoreIllegals: true }).value, code);
  // Least recently used entries come first and are evicted.
  cache.delete(key);
  cache.set(key, html);
  if (cache.size > MAX_CACHED) cache.delete(cache.keys().next().value ?? "");
  return html;
}

/** The highlighter's HTML if it has only spans with a class, as it should; otherwise the escaped code. */
export function onlySpans(html: string, code: string): string {
  return /[<>]/.test(html.replace(/<span class="[\w -]*">|<\/span>/g, "")) ? escape(code) : html;
}
