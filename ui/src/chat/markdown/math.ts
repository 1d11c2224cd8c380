// Formulas: `$x$`, `$$x$$`, `\(x\)`, `\[x\]`. KaTeX writes MathML, which the browser draws and a screen reader reads; no
// styles and no fonts of its own are needed. It is loaded with the first formula.
import type { TokenizerAndRendererExtension, Tokens } from "marked";
import { late } from "./late.svelte";

interface Katex {
  renderToString(tex: string, options: Record<string, unknown>): string;
}

const MOST_CHARS = 4000;
let katex: Katex | undefined;
let loading: Promise<void> | undefined;

function load(): void {
  loading ??= import("katex").then((loaded) => {
    katex = loaded.default;
    late.version += 1;
  });
}

function escape(text: string): string {
  return text.replace(/[&<>"]/g, (sign) => `&#${sign.charCodeAt(0)};`);
}

function mathml(tex: string, block: boolean): string {
  void late.version;
  if (katex === undefined) {
    load();
    return `<code>${escape(tex)}</code>`;
  }
  if (tex.length > MOST_CHARS) return `<code>${escape(tex)}</code>`;
  const drawn = katex.renderToString(tex, {
    output: "mathml",
    displayMode: block,
    throwOnError: false,
    trust: false,
    strict: "ignore",
    maxExpand: 500,
    maxSize: 20,
  });
  // The source is kept as an annotation, which would be shown as text once its wrapper is not let through; and the page's
  // policy complains of styles before they are taken away.
  return drawn.replace(/<annotation[\s\S]*?<\/annotation>/g, "").replace(/ style="[^"]*"/g, "");
}

interface MathToken extends Tokens.Generic {
  text: string;
  block: boolean;
}

function token(type: string, raw: string, text: string, block: boolean): MathToken {
  return { type, raw, text: text.trim(), block };
}

const blockMath: TokenizerAndRendererExtension = {
  name: "blockMath",
  level: "block",
  start: (source) => source.match(/(?:^|\n) {0,3}(?:\$\$|\\\[)/)?.index,
  tokenizer(source) {
    const found = /^ {0,3}(?:\$\$([\s\S]+?)\$\$|\\\[([\s\S]+?)\\\])[ \t]*(?:\n|$)/.exec(source);
    if (found === null) return undefined;
    return token("blockMath", found[0], found[1] ?? found[2] ?? "", true);
  },
  renderer: (one) => `<div class="math display">${mathml((one as MathToken).text, true)}</div>`,
};

const inlineMath: TokenizerAndRendererExtension = {
  name: "inlineMath",
  level: "inline",
  start: (source) => source.match(/\$|\\\(|\\\[/)?.index,
  tokenizer(source) {
    // As in Pandoc: no space inside, and no digit after, so that prices stay prices.
    const found =
      /^\$\$([^$]+?)\$\$/.exec(source) ?? /^\$(?![\s$])((?:\\.|[^\\$\n])*?)(?<![\s\\])\$(?!\d)/.exec(source) ?? /^\\\(([\s\S]+?)\\\)/.exec(source) ?? /^\\\[([\s\S]+?)\\\]/.exec(source);
    if (found === null || (found[1] ?? "").trim() === "") return undefined;
    return token("inlineMath", found[0], found[1] ?? "", found[0].startsWith("$$") || found[0].startsWith("\\["));
  },
  renderer: (one) => `<span class="math">${mathml((one as MathToken).text, (one as MathToken).block)}</span>`,
};

export const mathExtensions = [blockMath, inlineMath];
