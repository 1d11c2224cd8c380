// Tables that are too large to be laid out. Every row has as many cells as the header, however short it is in the text, so that a few
// kilobytes can describe millions of cells.
import type { TokenizerExtension, Tokens } from "marked";

const MOST_CELLS = 10_000;
const MOST_COLUMNS = 200;
const DELIMITERS = /^[-:| \t]+$/;

/** A block token of a table that is too large. */
export const oversizedTable: TokenizerExtension = {
  name: "oversizedTable",
  level: "block",
  tokenizer(source): Tokens.Generic | undefined {
    const headerEnd = source.indexOf("\n");
    const header = source.slice(0, headerEnd);
    if (headerEnd < 0 || !header.includes("|")) return undefined;
    const below = source.indexOf("\n", headerEnd + 1);
    let end = below < 0 ? source.length : below + 1;
    if (!DELIMITERS.test(source.slice(headerEnd + 1, end).trimEnd())) return undefined;
    const columns = header.split("|").length;
    const rows = Math.floor(MOST_CELLS / columns);
    let count = 1;
    while (end < source.length && source[end] !== "\n") {
      const next = source.indexOf("\n", end);
      end = next < 0 ? source.length : next + 1;
      count += 1;
    }
    return columns > MOST_COLUMNS || count > rows ? { type: "oversizedTable", raw: source.slice(0, end) } : undefined;
  },
};
