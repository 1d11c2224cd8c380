// Incremental rendering of a growing text. Blocks that no later text can change are frozen: they are neither parsed nor rendered
// again, so the cost depends only on the end of the text, and frozen blocks do not flicker.
//
// A block is frozen once a blank line ends it and a complete line follows. Before that line is complete, it may belong to the
// block ("2" becomes the item "2. two"); without the blank line, the following text may be the rest of a formula. At the end, the
// whole text is parsed once more for definitions of reference links; frozen blocks are reused. `incremental.test.ts` compares every
// state of a growing text with a rendering of the whole.
//
// A long end that is not frozen is parsed again only after it has grown by a part of its length, so that the cost of all states together
// stays linear. Until then, the new text is plain, or a part of the rest that is not shown at once.
import { locale } from "../../i18n";
import { late } from "./lazyParts.svelte";
import { type Block, blockOf, escape, lex, type Links, Pieces, render, ElementBudget, withRest } from "./render";

interface Frozen {
  from: number;
  end: number;
  block: Block | undefined;
  /** Part of the room that the block takes; undefined if it was cut. */
  cost: number | undefined;
}

/** Longest end of a text that is parsed with every change. */
const MOST_OPEN_CHARS = 16_000;
/** A longer end is parsed after it has grown by this part of its length. */
const GROWTH = 1 / 32;

const BLANK_LINE = /\n[ \t]*\n[ \t]*$/;

export class IncrementalMarkdown {
  #frozen: Frozen[] = [];
  #end = 0;
  #source = "";
  #links: Links = {};
  #pieces = new Pieces();
  #late = -1;
  #language = "";
  #room: ElementBudget;
  /** The last parsed state, and its length. */
  #last = { chars: 0, blocks: [] as Block[] };

  /** Shows as much as `portions` allow. */
  constructor(readonly portions = 1) {
    this.#room = new ElementBudget(portions);
  }

  /** The blocks of a text that may still grow. */
  blocks(text: string): Block[] {
    const source = this.#begin(text);
    if (this.#room.full) return withRest(this.#shown(), this.#room, source, this.#end);
    const open = source.length - this.#end;
    const grown = source.length - this.#last.chars;
    const hidden = this.#last.blocks.at(-1)?.kind === "rest";
    if (open > MOST_OPEN_CHARS && this.#last.chars > this.#end && (hidden || grown < open * GROWTH)) return withPlain(this.#last.blocks, source.slice(this.#last.chars));
    const blocks = this.#parse(source);
    this.#last = { chars: source.length, blocks };
    return blocks;
  }

  #parse(source: string): Block[] {
    const tail = lex(source.slice(this.#end), this.#links);
    const ends: number[] = [];
    for (const token of tail) ends.push((ends.at(-1) ?? this.#end) + token.raw.length);
    const keep = ends.at(-1) === source.length ? settled(source, this.#end, ends) : 0;
    const open: Block[] = [];
    const pieces = Object.keys(tail.links).length === 0 ? this.#pieces : undefined;
    let room = this.#room;
    let shownEnd = this.#end;
    for (const [at, token] of tail.entries()) {
      if (at === keep) room = this.#room.copy();
      if (room.full) break;
      const before = room.left;
      const block = blockOf(token, room, pieces);
      shownEnd = ends[at] ?? shownEnd;
      if (at >= keep) {
        if (block) open.push(block);
        if (room.cut) break;
        continue;
      }
      const [from, end] = [this.#end, shownEnd];
      this.#frozen.push({ from, end, block, cost: room.cut ? undefined : before - room.left });
      // An address at the end of the text may be incomplete.
      if (pieces === undefined) Object.assign(this.#links, lex(source.slice(from, end), this.#links).links);
      this.#end = end;
      if (room.cut) break;
    }
    this.#pieces.turn();
    return withRest([...this.#shown(), ...open], room, source, shownEnd);
  }

  #shown(): Block[] {
    return this.#frozen.flatMap(({ block }) => block ?? []);
  }

  /** The blocks of the complete text, equal to those of `blocks` in `render.ts`. */
  finish(text: string): Block[] {
    const source = this.#begin(text);
    const all = lex(source);
    const named = Object.keys(all.links).length > 0;
    const frozen = new Map(named ? [] : this.#frozen.map((one) => [one.from, one]));
    let from = 0;
    return render(all, source, new ElementBudget(this.portions), (token, room) => {
      const end = from + token.raw.length;
      const before = frozen.get(from);
      from = end;
      // Code is sliced from the new text: frozen slices would keep the shorter text in memory.
      if (before?.end !== end || before.cost === undefined || before.block?.kind === "code") return blockOf(token, room, named ? undefined : this.#pieces);
      room.take(before.cost);
      return before.block;
    });
  }

  /** Sets the text; drops blocks that no longer apply. */
  #begin(text: string): string {
    const source = text.includes("\r") ? text.replace(/\r\n?/g, "\n") : text;
    const extended = source.startsWith(this.#source);
    // Text that was rendered without the highlighter or KaTeX is rendered again.
    if (!source.startsWith(this.#source.slice(0, this.#end)) || locale.current !== this.#language || late.version !== this.#late) {
      this.#frozen = [];
      this.#end = 0;
      this.#links = {};
      this.#pieces.clear();
      this.#room = new ElementBudget(this.portions);
      this.#last = { chars: 0, blocks: [] };
    } else if (!extended) this.#last = { chars: 0, blocks: [] };
    this.#source = source;
    this.#late = late.version;
    this.#language = locale.current;
    return source;
  }
}

/** Blocks with the plain text that follows them: in an open code block, or in a paragraph. */
function withPlain(blocks: readonly Block[], text: string): Block[] {
  const last = blocks.at(-1);
  if (text.trim() === "") return [...blocks];
  if (last?.kind === "rest") return [...blocks.slice(0, -1), { ...last, chars: last.chars + text.length }];
  if (last?.kind === "code" && last.open) return [...blocks.slice(0, -1), { ...last, code: last.code + text }];
  return [...blocks, { kind: "html", html: `<p>${escape(text)}</p>` }];
}

/** How many of the tokens that end at `ends` cannot change any more. */
function settled(source: string, from: number, ends: readonly number[]): number {
  for (let count = ends.length - 1; count > 0; count -= 1) {
    const end = ends[count - 1] ?? from;
    const next = source.slice(end).trimStart();
    if (next.includes("\n") && BLANK_LINE.test(source.slice(Math.max(from, end - 200), end))) return count;
  }
  return 0;
}
