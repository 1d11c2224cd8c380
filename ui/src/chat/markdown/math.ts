// Formulas: `$x$`, `$$x$$`, `\(x\)`, `\[x\]`. KaTeX renders them, because browsers support only a part of MathML and need a font
// that many systems lack. MathML is included for screen readers. KaTeX is loaded with the first formula.
import type { TokenizerAndRendererExtension, Tokens } from "marked";
import { carried } from "./katexStyles";
import { late } from "./lazyParts.svelte";

interface Katex {
  renderToString(tex: string, options: Record<string, unknown>): string;
}

const MOST_CHARS = 4000;
/** Size of the cache of rendered formulas: a growing paragraph is rendered again and again. */
const MAX_CACHED = 200;
const cache = new Map<string, string>();
let katex: Katex | undefined;
let loading: Promise<void> | undefined;

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
    late.missed += 1;
    return `<code>${escape(tex)}</code>`;
  }
  if (tex.length > MOST_CHARS) return `<code>${escape(tex)}</code>`;
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

/** The text up to its first blank line, which ends a formula as in TeX, closed or not. */
function paragraph(source: string): string {
  const end = /\n[ \t]*\n/.exec(source);
  return end === null ? source : source.slice(0, end.index + 1);
}

const blockMath: TokenizerAndRendererExtension = {
  name: "blockMath",
  level: "block",
  start: (source) => paragraph(source).match(/(?:^|\n) {0,3}(?:\$\$|\\\[)/)?.index,
  tokenizer(source) {
    const found = /^ {0,3}(?:\$\$([\s\S]+?)\$\$|\\\[([\s\S]+?)\\\])[ \t]*(?:\n|$)/.exec(paragraph(source));
    if (found === null) return undefined;
    return token("blockMath", found[0], found[1] ?? found[2] ?? "", true);
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
