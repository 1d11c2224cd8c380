// What a screen reader is told of an answer that grows: whole sentences, each once, without the signs of Markdown.

const SENTENCE_END = /[.!?…](?=\s)|[。！？]|\n\s*\n/g;
const FENCE = /^ {0,3}(?:```|~~~)/gm;

function plain(markdown: string): string {
  return markdown
    .replace(/^ {0,3}(```|~~~)[\s\S]*?^ {0,3}\1[^\n]*$/gm, " ")
    .replace(/!?\[([^\]]*)\]\([^)]*\)/g, "$1")
    .replace(/[*_`#>|]+/g, " ")
    .replace(/\s+/g, " ")
    .trim();
}

export class Speaking {
  #told = 0;

  /** What is new since the last time: up to the last end of a sentence, or all of it when nothing more comes. */
  next(source: string, whole: boolean): string {
    const rest = source.slice(this.#told);
    let end = rest.length;
    if (!whole) {
      const last = [...rest.matchAll(SENTENCE_END)].at(-1);
      end = last === undefined ? 0 : last.index + last[0].length;
      // Code that is still open has no sentences; it is left out as soon as it is closed.
      const fences = [...rest.slice(0, end).matchAll(FENCE)];
      if (fences.length % 2 === 1) end = fences.at(-1)?.index ?? 0;
    }
    this.#told += end;
    return plain(rest.slice(0, end));
  }
}
