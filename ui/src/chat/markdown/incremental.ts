// Incremental rendering of a growing text. Blocks that no later text can change are frozen: they are neither parsed nor rendered
// again, so the cost depends only on the end of the text, and frozen blocks do not flicker.
//
// A block is frozen once a blank line ends it and a complete line follows. Before that line is complete, it may belong to the
// block ("2" becomes the item "2. two"); without the blank line, the following text may be the rest of a formula. At the end, the
// whole text is parsed once more for definitions of reference links; frozen blocks are reused. `incremental.test.ts` compares every
// state of a growing text with a rendering of the whole.
import { locale } from "../../i18n";
import { late } from "./lazyParts.svelte";
import { type Block, blockOf, lex, type Links, Pieces } from "./render";

interface Frozen {
  from: number;
  end: number;
  block: Block | undefined;
  /** It was rendered before the highlighter or KaTeX was loaded. */
  plain: boolean;
}

const BLANK_LINE = /\n[ \t]*\n[ \t]*$/;

export class IncrementalMarkdown {
  #frozen: Frozen[] = [];
  #end = 0;
  #source = "";
  #links: Links = {};
  #pieces = new Pieces();
  #late = -1;
  #language = "";

  /** The blocks of a text that may still grow. */
  blocks(text: string): Block[] {
    const source = this.#begin(text);
    const tail = lex(source.slice(this.#end), this.#links);
    const ends: number[] = [];
    for (const token of tail) ends.push((ends.at(-1) ?? this.#end) + token.raw.length);
    const keep = ends.at(-1) === source.length ? settled(source, this.#end, ends) : 0;
    const open: Block[] = [];
    const pieces = Object.keys(tail.links).length === 0 ? this.#pieces : undefined;
    for (const [at, token] of tail.entries()) {
      const missed = late.missed;
      const block = blockOf(token, pieces);
      if (at >= keep) {
        if (block) open.push(block);
        continue;
      }
      const [from, end] = [this.#end, ends[at] ?? this.#end];
      this.#frozen.push({ from, end, block, plain: late.missed !== missed });
      // An address at the end of the text may be incomplete.
      if (pieces === undefined) Object.assign(this.#links, lex(source.slice(from, end), this.#links).links);
      this.#end = end;
    }
    this.#pieces.turn();
    return [...this.#frozen.flatMap(({ block }) => block ?? []), ...open];
  }

  /** The blocks of the complete text, equal to those of `blocks` in `render.ts`. */
  finish(text: string): Block[] {
    const source = this.#begin(text);
    const all = lex(source);
    const named = Object.keys(all.links).length > 0;
    const frozen = new Map(named ? [] : this.#frozen.map((one) => [one.from, one]));
    let from = 0;
    return all.flatMap((token) => {
      const end = from + token.raw.length;
      const before = frozen.get(from);
      from = end;
      // Code is sliced from the new text: frozen slices would keep the shorter text in memory.
      const block = before?.end === end && before.block?.kind !== "code" ? before.block : blockOf(token, named ? undefined : this.#pieces);
      return block ?? [];
    });
  }

  /** Takes a text; drops or renders again what no longer applies. */
  #begin(text: string): string {
    const source = text.includes("\r") ? text.replace(/\r\n?/g, "\n") : text;
    if (!source.startsWith(this.#source.slice(0, this.#end)) || locale.current !== this.#language) {
      this.#frozen = [];
      this.#end = 0;
      this.#links = {};
      this.#pieces.clear();
    } else if (late.version !== this.#late) {
      this.#pieces.clear();
      for (const one of this.#frozen) {
        if (one.plain) one.block = lex(source.slice(one.from, one.end), this.#links).flatMap((token) => blockOf(token) ?? [])[0];
      }
    }
    this.#source = source;
    this.#late = late.version;
    this.#language = locale.current;
    return source;
  }
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
