// Formulas: `$x$`, `$$x$$`, `\(x\)`, `\[x\]`. KaTeX renders them, because browsers support only a part of MathML and need a font
// that many systems lack. MathML is included for screen readers. KaTeX is loaded with the first formula.
import type { TokenizerAndRendererExtension, Tokens } from "marked";
import { carried } from "./katexStyles";
import { late } from "./lazyParts.svelte";

interface Katex {
  renderToString(tex: string, options: Record<string, unknown>): string;
}

const MOST_CHARS = 4000;
/** Formulas of a block that are typeset; the others are shown as their source. */
const MOST_FORMULAS = 200;
/** Size of the cache of rendered formulas: a growing paragraph is rendered again and again, with all its formulas. */
const MAX_CACHED = 2 * MOST_FORMULAS;
const cache = new Map<string, string>();
let katex: Katex | undefined;
let loading: Promise<void> | undefined;
let formulas = 0;

/** Starts counting the formulas of a block. */
export function startBlock(): void {
  formulas = 0;
}

function load(): void {
  loading ??= import("./katex").then((loaded) => {
    katex = loaded.default;
    late.version += 1;
  });
}

function escape(text: string): string {
  return text.replace(/[&<>"]/g, (sign) => `&#${sign.charCodeAt(0)};`);
}

/** `undefined` if the nesting is too deep; KaTeX would show that as an error in place. */
function typeset(loaded: Katex, tex: string, block: boolean): string | undefined {
  try {
    return loaded.renderToString(tex, {
      displayMode: block,
      throwOnError: false,
      trust: false,
      strict: "ignore",
      maxExpand: 500,
      maxSize: 20,
    });
  } catch {
    return undefined;
  }
}

function renderFormula(tex: string, block: boolean): string {
  void late.version;
  if (katex === undefined) {
    load();
    return `<code>${escape(tex)}</code>`;
  }
  formulas += 1;
  if (tex.length > MOST_CHARS || formulas > MOST_FORMULAS) return `<code>${escape(tex)}</code>`;
  const key = `${block ? "block" : "inline"} ${tex}`;
  const before = cache.get(key);
  if (before !== undefined) return before;
  const laid = typeset(katex, tex, block);
  // The source is an annotation, which would be shown as text once its wrapper is removed.
  const html = laid === undefined ? `<code>${escape(tex)}</code>` : carried(laid.replace(/<annotation[\s\S]*?<\/annotation>/g, ""));
  if (cache.size >= MAX_CACHED) cache.delete(cache.keys().next().value ?? "");
  cache.set(key, html);
  return html;
}

interface MathToken extends Tokens.Generic {
  text: string;
  block: boolean;
}

function token(type: string, raw: string, text: string, block: boolean): MathToken {
  return { type, raw, text: text.trim(), block };
}

/** A block formula is searched for this far ahead; KaTeX gets at most `MOST_CHARS` of it. */
const MOST_AHEAD = 4500;
/** As in TeX, a blank line ends a formula, closed or not. */
const BLANK_LINE = /\n[ \t]*\n/;
const OPENING = /^ {0,3}(\$\$|\\\[)/;
const LINE_END = /[ \t]*(?:\n|$)/y;

/** Where the last `mark` that ends a line is; -1 if there is none. */
function lastClosing(text: string, mark: string): number {
  let at = text.lastIndexOf(mark);
  for (; at > 0; at = text.lastIndexOf(mark, at - 1)) {
    LINE_END.lastIndex = at + mark.length;
    if (LINE_END.test(text)) return at;
  }
  return -1;
}

const blockMath: TokenizerAndRendererExtension = {
  name: "blockMath",
  level: "block",
  start(source) {
    let near = source.slice(0, MOST_AHEAD);
    // Most paragraphs have no formula; searching for a string is faster than matching.
    if (!near.includes("$$") && !near.includes("\\]")) return undefined;
    near = near.slice(0, BLANK_LINE.exec(near)?.index);
    // A formula that is never closed does not end the paragraph: merging its pieces again would be slow.
    const closings = { $$: lastClosing(near, "$$"), "\\[": lastClosing(near, "\\]") };
    for (const { 0: found, 1: mark, index } of near.matchAll(/(?:^|\n) {0,3}(\$\$|\\\[)/g)) {
      if (closings[mark as "$$" | "\\["] > index + found.length) return index;
    }
    return undefined;
  },
  tokenizer(source) {
    const opening = OPENING.exec(source);
    if (opening === null) return undefined;
    const near = source.slice(0, MOST_AHEAD);
    const closing = opening[1] === "$$" ? "$$" : "\\]";
    const begin = opening[0].length;
    for (let at = near.indexOf(closing, begin + 1); at >= 0; at = near.indexOf(closing, at + 1)) {
      LINE_END.lastIndex = at + 2;
      const end = LINE_END.exec(near);
      if (end === null) continue;
      if (BLANK_LINE.test(near.slice(0, at))) return undefined;
      return token("blockMath", near.slice(0, at + 2) + end[0], near.slice(begin, at), true);
    }
    return undefined;
  },
  renderer: (one) => `<div class="math display">${renderFormula((one as MathToken).text, true)}</div>`,
};

const inlineMath: TokenizerAndRendererExtension = {
  name: "inlineMath",
  level: "inline",
  start: (source) => source.match(/\$|\\\(|\\\[/)?.index,
  tokenizer(source) {
    // As in Pandoc: no space inside and no digit after, so that prices stay prices.
    const found =
      /^\$\$([^$]+?)\$\$/.exec(source) ?? /^\$(?![\s$])((?:\\.|[^\\$\n])*?)(?<![\s\\])\$(?!\d)/.exec(source) ?? /^\\\(([\s\S]+?)\\\)/.exec(source) ?? /^\\\[([\s\S]+?)\\\]/.exec(source);
    if (found === null || (found[1] ?? "").trim() === "") return undefined;
    return token("inlineMath", found[0], found[1] ?? "", found[0].startsWith("$$") || found[0].startsWith("\\["));
  },
  renderer: (one) => `<span class="math">${renderFormula((one as MathToken).text, (one as MathToken).block)}</span>`,
};

export const mathExtensions = [blockMath, inlineMath];
