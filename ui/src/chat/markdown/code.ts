// Colours of code. The highlighter is loaded with the first code block that is seen; until then code is plain.
import type { HLJSApi } from "highlight.js";
import { late } from "./late.svelte";

const MOST_CHARS = 60_000;

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
    if (language !== "") void loadHighlighter();
    return escape(code);
  }
  const known = highlighter.getLanguage(language.toLowerCase());
  if (known === undefined || code.length > MOST_CHARS) return escape(code);
  return highlighter.highlight(code, { language: language.toLowerCase(), ignoreIllegals: true }).value;
}
