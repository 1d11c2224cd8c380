// Markdown to HTML, block by block, and lists item by item: a text that grows is then drawn anew only where it grows
// (`growing.ts`).
import { Marked, type RendererObject, type Token, type Tokens, type TokensList } from "marked";
import { t } from "../../i18n";
import { highlighted } from "./code";
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

/** A block of a message: a code block by itself, a list by its items, or other HTML; all HTML in it is safe to show. */
export type Block =
  | { kind: "code"; code: string; language: string; open: boolean }
  | { kind: "list"; ordered: boolean; start: number; items: readonly string[] }
  | { kind: "html"; html: string };

/** Quotes in quotes and lists in lists that are laid out; what is deeper is plain text. */
const MOST_DEEP = 40;
/** The longest text of one paragraph, heading or cell that is read for emphasis, links and formulas: beyond it, what opens and never
 * closes takes too long to look for. */
const MOST_INLINE_CHARS = 10_000;

/** Addresses that a text gives names to, for links by reference. */
export type Links = TokensList["links"];

/** A text as tokens, with inline ones in them; `known` are addresses that were named before it. */
export function lex(source: string, known: Links = {}): TokensList {
  const lexer = new marked.Lexer(marked.defaults);
  Object.assign(lexer.tokens.links, known);
  bound(lexer);
  return lexer.lex(source);
}

/** Keeps a lexer from texts that were made to hold up whoever reads them: those come out plain. */
function bound(lexer: InstanceType<typeof marked.Lexer>): void {
  const { blockTokens, inlineTokens } = lexer;
  const deep = { block: 0, inline: 0 };
  const plain = (source: string): Tokens.Text => ({ type: "text", raw: source, text: source, escaped: false });
  lexer.blockTokens = (source: string, tokens: Token[] = [], last?: boolean): TokensList => {
    const all = tokens as TokensList;
    if (deep.block >= MOST_DEEP) {
      all.push({ ...plain(source), tokens: [plain(source)] });
      return all;
    }
    deep.block += 1;
    try {
      return blockTokens.call(lexer, source, all, last);
    } finally {
      deep.block -= 1;
    }
  };
  lexer.inlineTokens = (source: string, tokens: Token[] = []): Token[] => {
    if (deep.inline >= MOST_DEEP || source.length > MOST_INLINE_CHARS) {
      tokens.push(plain(source));
      return tokens;
    }
    deep.inline += 1;
    try {
      return inlineTokens.call(lexer, source, tokens);
    } finally {
      deep.inline -= 1;
    }
  };
}

/** HTML that the last rendering made, by what it was made of, so that the next one need not make it again. */
export class Pieces {
  #last = new Map<string, string>();
  #now = new Map<string, string>();

  html(key: string, make: () => string): string {
    const html = this.#now.get(key) ?? this.#last.get(key) ?? make();
    this.#now.set(key, html);
    return html;
  }

  /** A rendering is over; what it did not use is forgotten. */
  turn(): void {
    this.#last = this.#now;
    this.#now = new Map();
  }

  clear(): void {
    this.#last.clear();
    this.#now.clear();
  }
}

function isOpenFence(raw: string): boolean {
  const fence = /^ {0,3}(`{3,}|~{3,})/.exec(raw)?.[1];
  if (fence === undefined) return false;
  const last = raw.trimEnd().split("\n").at(-1)?.trim() ?? "";
  return !(raw.includes("\n") && last.startsWith(fence) && /^[`~]+$/.test(last));
}

/** What a token shows; nothing for those that only part others, or name addresses. */
export function blockOf(token: Token, pieces?: Pieces): Block | undefined {
  if (token.type === "space" || token.type === "def") return undefined;
  const piece = (key: string, tokens: Token[]): string => {
    const make = (): string => sanitise(marked.parser(tokens));
    return pieces === undefined ? make() : pieces.html(key, make);
  };
  if (token.type === "code") {
    const code = token as Tokens.Code;
    return { kind: "code", code: code.text, language: (code.lang ?? "").split(/\s/)[0] ?? "", open: isOpenFence(code.raw) };
  }
  if (token.type === "list") {
    const list = token as Tokens.List;
    // An item's paragraphs are paragraphs only where the list is loose.
    const items = list.items.map((item) => piece(`${item.loose ? "loose" : "tight"} ${item.raw}`, item.tokens));
    return { kind: "list", ordered: list.ordered, start: list.start === "" ? 1 : list.start, items };
  }
  const html = piece(`block ${token.raw}`, [token]);
  return html.trim() === "" ? undefined : { kind: "html", html };
}

/** All blocks of a whole text. Links by reference find their addresses wherever they stand. */
export function blocks(source: string): Block[] {
  return lex(source).flatMap((token) => blockOf(token) ?? []);
}
