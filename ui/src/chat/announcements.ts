// Text for screen readers of a growing answer: whole sentences, each once, without Markdown syntax.

const SENTENCE_END = /[.!?…](?=\s)|[。！？]|\n\s*\n/g;
const FENCE = /^ {0,3}(?:```|~~~)/gm;

/** The words of a Markdown text, without code. */
export function plain(markdown: string): string {
  return markdown
    .replace(/^ {0,3}(```|~~~)[\s\S]*?^ {0,3}\1[^\n]*$/gm, " ")
    .replace(/!?\[([^\]]*)\]\([^)]*\)/g, "$1")
    .replace(/[*`#>|]+/g, " ")
    // Underscores within a word belong to it: `snake_case`.
    .replace(/(?<![\p{L}\p{N}])_+|_+(?![\p{L}\p{N}])/gu, " ")
    .replace(/\s+/g, " ")
    .replace(/ (?=[.,;:!?…](?: |$))/g, "")
    .trim();
}

export class Announcements {
  #announced = 0;

  /** The new text since the last call: up to the last end of a sentence, or all of it when the answer is complete. */
  next(source: string, whole: boolean): string {
    const rest = source.slice(this.#announced);
    let end = rest.length;
    if (!whole) {
      const last = [...rest.matchAll(SENTENCE_END)].at(-1);
      end = last === undefined ? 0 : last.index + last[0].length;
      // Code has no sentences; it is skipped once its block is closed.
      const fences = [...rest.slice(0, end).matchAll(FENCE)];
      if (fences.length % 2 === 1) end = fences.at(-1)?.index ?? 0;
    }
    this.#announced += end;
    return plain(rest.slice(0, end));
  }
}
