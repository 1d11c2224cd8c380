// A text that grows. Blocks that nothing to come can change are frozen: they are neither read nor rendered again, so that a
// long answer costs no more than its end, and what stands does not flicker.
//
// A block is frozen once a blank line ends it and a whole line follows that. Before that line is whole it may turn out to
// belong to the block ("2" becomes the next item "2. two"), and without the blank line what follows may be the rest of a
// formula. At the end the whole text is read once more, for addresses that links are given further down; what is frozen is
// taken from there as it is. `growing.test.ts` holds each state of a growing text against a rendering of the whole.
import { locale } from "../../i18n";
import { late } from "./late.svelte";
import { type Block, blockOf, lex, type Links, Pieces } from "./render";

interface Frozen {
  from: number;
  end: number;
  block: Block | undefined;
  /** It was rendered before the highlighter or KaTeX had come. */
  plain: boolean;
}

const BLANK_LINE = /\n[ \t]*\n[ \t]*$/;

export class Growing {
  #frozen: Frozen[] = [];
  #end = 0;
  #source = "";
  #links: Links = {};
  #pieces = new Pieces();
  #late = -1;
  #language = "";

  /** The blocks of a text that may go on. */
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
      // An address at the end of the text may not be whole yet.
      if (pieces === undefined) Object.assign(this.#links, lex(source.slice(from, end), this.#links).links);
      this.#end = end;
    }
    this.#pieces.turn();
    return [...this.#frozen.flatMap(({ block }) => block ?? []), ...open];
  }

  /** The blocks of the text now that it is whole, as `blocks` of `render.ts` would make them. */
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
      // Code is cut out of the text anew: what was frozen holds on to the shorter text that it was cut out of.
      const made = before?.end === end && before.block?.kind !== "code" ? before.block : blockOf(token, named ? undefined : this.#pieces);
      return made ?? [];
    });
  }

  /** Takes a text, and forgets or renders again what does not hold for it. */
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

/** How many of the tokens that end at `ends` nothing to come can change. */
function settled(source: string, from: number, ends: readonly number[]): number {
  for (let count = ends.length - 1; count > 0; count -= 1) {
    const end = ends[count - 1] ?? from;
    const next = source.slice(end).trimStart();
    if (next.includes("\n") && BLANK_LINE.test(source.slice(Math.max(from, end - 200), end))) return count;
  }
  return 0;
}
