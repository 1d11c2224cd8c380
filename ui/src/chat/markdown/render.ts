// Markdown to HTML, block by block, and lists item by item, so that a growing text is rendered again only at its end
// (`incremental.ts`).
import { Marked, Tokenizer, type RendererObject, type Token, type Tokens, type TokenizerObject, type TokensList } from "marked";
import { t } from "../../i18n";
import { highlighted } from "./code";
import { mathExtensions, startBlock } from "./math";
import { sanitise } from "./sanitise";
import { oversizedTable } from "./tables";

export function escape(text: string): string {
  return text.replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`);
}

/** Web and mail addresses; other addresses are no links. */
export function safeLink(href: string): string | undefined {
  try {
    const url = new URL(href);
    return ["http:", "https:", "mailto:"].includes(url.protocol) ? url.href : undefined;
  } catch {
    return undefined;
  }
}

/** HTML tags that models use where Markdown has none; harmless without attributes. */
const PLAIN_TAG = /^<\/?(?:br|hr|sub|sup|kbd|b|i|u|s|em|strong|del|ins|mark|small|details|summary)\s*\/?>$/i;

function rawHtml(text: string): string {
  return text
    .replace(/<!--[\s\S]*?(?:-->|$)/g, "")
    .split(/(<[^<>]*>)/)
    .map((part) => (PLAIN_TAG.test(part) ? part.toLowerCase() : escape(part)))
    .join("");
}

/** An external image is shown as a link: loading it would reveal the reader to its host. */
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
    // A wide table scrolls on its own, also by keyboard.
    return `<div class="table-scroll" tabindex="0" role="group" aria-label="${escape(t("chat.table"))}"><table><thead>${head}</thead><tbody>${body}</tbody></table></div>`;
  },
};

/** HTML of a text without formatting, after a line that explains why. */
function plainText(text: string): string {
  return `<p class="t3 xs">${escape(t("chat.shown_plain"))}</p><pre tabindex="0">${escape(text)}</pre>`;
}

/** Longest heading that is underlined. Its end would otherwise be searched for in all of the text, for each block. */
const MOST_UNDERLINED_CHARS = 4500;

const tokenizer: TokenizerObject = {
  lheading(source) {
    const near = source.slice(0, MOST_UNDERLINED_CHARS);
    const lines = near.length === source.length ? near : near.slice(0, near.lastIndexOf("\n") + 1);
    return Tokenizer.prototype.lheading.call(this, lines);
  },
};

const marked = new Marked({
  tokenizer,
  gfm: true,
  breaks: false,
  renderer,
  extensions: [...mathExtensions, { ...oversizedTable, renderer: ({ raw }) => plainText(raw) }],
});

/** A block of a message: code, a list with its items, or other HTML. All its HTML is safe to show. */
export type Block =
  | { kind: "code"; code: string; language: string; open: boolean }
  | { kind: "list"; ordered: boolean; start: number; items: readonly string[] }
  | { kind: "html"; html: string }
  /** The end of a message that is too long to be shown at once. */
  | { kind: "rest"; chars: number };

/** HTML tags that a message shows at once. A browser takes too long to lay out more. */
const PORTION = 60_000;
/** Cost of a block apart from its tags: each block is sanitised and inserted on its own. */
const BLOCK_COST = 20;
const ITEM_COST = 8;
/** Characters of code that cost as much as a tag: highlighting makes a tag for every few. */
const CODE_CHARS = 8;
/** Most tags of a single block or list item; larger ones are plain text. */
const MOST_TAGS = 30_000;

/** Remaining number of HTML tags that a message may show. */
export class ElementBudget {
  left: number;
  /** Whether a part of the last block was left out. */
  cut = false;

  constructor(portions: number) {
    this.left = portions * PORTION;
  }

  get full(): boolean {
    return this.left <= 0;
  }

  take(cost: number): void {
    this.left -= cost;
  }

  copy(): ElementBudget {
    return Object.assign(new ElementBudget(0), { left: this.left, cut: this.cut });
  }
}

/** Counts opening and closing tags. */
function tags(html: string): number {
  let count = 0;
  for (let at = html.indexOf("<"); at >= 0; at = html.indexOf("<", at + 1)) count += 1;
  return count;
}

/** Maximum nesting of quotes and lists; deeper levels are plain text. */
const MOST_DEEP = 40;
/** Longest paragraph, heading or cell that is parsed for emphasis, links and formulas. Longer ones take too long if a mark is never
 * closed. */
const MOST_INLINE_CHARS = 10_000;

/** Definitions of reference links. */
export type Links = TokensList["links"];

/** Parses a text into tokens, including inline tokens; `earlier` are definitions that precede it. */
export function lex(source: string, earlier: Links = {}): TokensList {
  const lexer = new marked.Lexer(marked.defaults);
  Object.assign(lexer.tokens.links, earlier);
  bound(lexer);
  return lexer.lex(source);
}

/** Protects the lexer from texts built to slow it down; they are shown as plain text. */
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

/** HTML of the last rendering by source, reused by the next one. */
export class Pieces {
  #last = new Map<string, string>();
  #now = new Map<string, string>();

  html(key: string, make: () => string): string {
    const html = this.#now.get(key) ?? this.#last.get(key) ?? make();
    this.#now.set(key, html);
    return html;
  }

  /** Ends a rendering; unused entries are dropped. */
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

/** The block of a token; none for separators and definitions. */
export function blockOf(token: Token, room: ElementBudget, pieces?: Pieces): Block | undefined {
  room.cut = false;
  if (token.type === "space" || token.type === "def") return undefined;
  const piece = (key: string, tokens: Token[], cost: number): string => {
    const make = (): string => {
      startBlock();
      const html = marked.parser(tokens);
      return sanitise(tags(html) > MOST_TAGS ? plainText(tokens.map(({ raw }) => raw).join("")) : html);
    };
    const html = pieces === undefined ? make() : pieces.html(key, make);
    room.take(cost + tags(html));
    return html;
  };
  if (token.type === "code") {
    const code = token as Tokens.Code;
    room.take(BLOCK_COST + code.text.length / CODE_CHARS);
    return { kind: "code", code: code.text, language: (code.lang ?? "").split(/\s/)[0] ?? "", open: isOpenFence(code.raw) };
  }
  if (token.type === "list") {
    const list = token as Tokens.List;
    const items: string[] = [];
    room.take(BLOCK_COST);
    for (const item of list.items) {
      room.cut = room.full && items.length > 0;
      if (room.cut) break;
      // Paragraphs of an item are separate only in a loose list.
      items.push(piece(`${item.loose ? "loose" : "tight"} ${item.raw}`, item.tokens, ITEM_COST));
    }
    return { kind: "list", ordered: list.ordered, start: list.start === "" ? 1 : list.start, items };
  }
  const html = piece(`block ${token.raw}`, [token], BLOCK_COST);
  return html.trim() === "" ? undefined : { kind: "html", html };
}

/** The blocks of a complete text, as much as `portions` allow. Reference links find definitions anywhere in it. */
export function blocks(source: string, portions = 1): Block[] {
  return render(lex(source), source, new ElementBudget(portions), (token, room) => blockOf(token, room));
}

/** The blocks that `draw` makes of tokens, while there is room. */
export function render(tokens: readonly Token[], source: string, room: ElementBudget, draw: (token: Token, room: ElementBudget) => Block | undefined): Block[] {
  const shown: Block[] = [];
  let end = 0;
  for (const token of tokens) {
    if (room.full) break;
    end += token.raw.length;
    const block = draw(token, room);
    if (block) shown.push(block);
    if (room.cut) break;
  }
  return withRest(shown, room, source, end);
}

/** Adds the rest of a text after the end of its blocks, `end`, if `room` did not suffice. */
export function withRest(shown: Block[], room: ElementBudget, source: string, end: number): Block[] {
  const chars = source.length - end;
  return room.cut || (room.full && source.slice(end).trim() !== "") ? [...shown, { kind: "rest", chars }] : shown;
}
