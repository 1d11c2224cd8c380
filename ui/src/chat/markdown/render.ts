// Markdown to HTML, block by block. Blocks that are finished are never rendered again, so that a growing answer costs only
// its end and what stands does not flicker.
import { Marked, type RendererObject, type Token, type Tokens } from "marked";
import { t } from "../../i18n";
import { highlighted } from "./code";
import { late } from "./late.svelte";
import { mathExtensions } from "./math";
import { sanitise } from "./sanitise";

export function escape(text: string): string {
  return text.replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`);
}

/** Web and mail addresses; anything else is no link. */
export function safeLink(href: string): string | undefined {
  try {
    const url = new URL(href);
    return ["http:", "https:", "mailto:"].includes(url.protocol) ? url.href : undefined;
  } catch {
    return undefined;
  }
}

/** Tags that models use for lack of Markdown; without attributes they do no harm. */
const PLAIN_TAG = /^<\/?(?:br|hr|sub|sup|kbd|b|i|u|s|em|strong|del|ins|mark|small|details|summary)\s*\/?>$/i;

function rawHtml(text: string): string {
  return text
    .replace(/<!--[\s\S]*?(?:-->|$)/g, "")
    .split(/(<[^<>]*>)/)
    .map((part) => (PLAIN_TAG.test(part) ? part.toLowerCase() : escape(part)))
    .join("");
}

/** A picture elsewhere is a link: loading it would tell its host that somebody reads this. */
function pictureLink(href: string, text: string): string {
  const url = safeLink(href);
  const name = escape(text || t("chat.picture"));
  if (url === undefined) return `<span class="chip line">${name}</span>`;
  const host = escape(new URL(url).host);
  return `<a class="chip line picture-link" href="${escape(url)}" title="${escape(url)}">${name}<span class="t3"> ${host}</span></a>`;
}

const renderer: RendererObject = {
  html({ text }) {
    return rawHtml(text);
  },
  image({ href, text }) {
    return pictureLink(href, text);
  },
  link({ href, tokens }) {
    const text = this.parser.parseInline(tokens);
    const url = safeLink(href);
    return url === undefined ? text : `<a href="${escape(url)}" title="${escape(url)}">${text}</a>`;
  },
  code({ text, lang }) {
    const language = (lang ?? "").split(/\s/)[0] ?? "";
    const head = `<header><span>${escape(language)}</span><span class="grow"></span><button type="button" class="btn ghost sm" data-copy="code">${escape(t("common.copy"))}</button></header>`;
    return `<figure class="code-block" role="group" aria-label="${escape(t("chat.code", { language }))}">${head}<pre tabindex="0"><code>${highlighted(text, language)}</code></pre></figure>`;
  },
  checkbox({ checked }) {
    return `<span class="check" role="img" aria-label="${escape(t(checked ? "chat.checked" : "chat.unchecked"))}">${checked ? "☑" : "☐"}</span> `;
  },
  table(token) {
    const cell = (one: Tokens.TableCell): string => {
      const tag = one.header ? "th" : "td";
      const align = one.align ? ` align="${one.align}"` : "";
      return `<${tag}${align}>${this.parser.parseInline(one.tokens)}</${tag}>`;
    };
    const head = `<tr>${token.header.map(cell).join("")}</tr>`;
    const body = token.rows.map((row) => `<tr>${row.map(cell).join("")}</tr>`).join("");
    // A wide table scrolls by itself, also by keyboard.
    return `<div class="table-scroll" tabindex="0" role="group" aria-label="${escape(t("chat.table"))}"><table><thead>${head}</thead><tbody>${body}</tbody></table></div>`;
  },
};

const marked = new Marked({ gfm: true, breaks: false, renderer, extensions: mathExtensions });

/** A block of a message: a code block by itself, or HTML that is safe to show. */
export type Block = { kind: "code"; code: string; language: string; open: boolean } | { kind: "html"; html: string };

function isOpenFence(raw: string): boolean {
  const fence = /^ {0,3}(`{3,}|~{3,})/.exec(raw)?.[1];
  if (fence === undefined) return false;
  const last = raw.trimEnd().split("\n").at(-1)?.trim() ?? "";
  return !(raw.includes("\n") && last.startsWith(fence) && /^[`~]+$/.test(last));
}

function blockOf(token: Token): Block | undefined {
  if (token.type === "space" || token.type === "def") return undefined;
  if (token.type === "code") {
    const code = token as Tokens.Code;
    return { kind: "code", code: code.text, language: (code.lang ?? "").split(/\s/)[0] ?? "", open: isOpenFence(code.raw) };
  }
  const html = sanitise(marked.parser([token]));
  return html.trim() === "" ? undefined : { kind: "html", html };
}

/** A text that grows, as blocks. */
export class Growing {
  #done: Block[] = [];
  #doneChars = 0;
  #source = "";
  #version = 0;

  /** The blocks of `source`; what is finished since the last time is kept as it is. */
  blocks(source: string): Block[] {
    if (!source.startsWith(this.#source.slice(0, this.#doneChars)) || this.#version !== late.version) {
      this.#version = late.version;
      this.#done = [];
      this.#doneChars = 0;
    }
    this.#source = source;
    const tail = marked.lexer(source.slice(this.#doneChars));
    const lastAt = tail.findLastIndex((token) => token.type !== "space");
    const open: Block[] = [];
    let chars = this.#doneChars;
    tail.forEach((token, at) => {
      chars += token.raw.length;
      const block = blockOf(token);
      // The last block may still change its meaning, and a space after it tells nothing.
      if (at < lastAt) {
        if (block) this.#done.push(block);
        this.#doneChars = chars;
      } else if (block) open.push(block);
    });
    return [...this.#done, ...open];
  }
}

/** All blocks of a finished text; links by reference find their addresses wherever they stand. */
export function blocks(source: string): Block[] {
  const found: Block[] = [];
  for (const token of marked.lexer(source)) {
    const block = blockOf(token);
    if (block) found.push(block);
  }
  return found;
}
