// Marks that stand on one letter: some languages need three or four. Thousands of them hold a browser up for minutes when it lays
// the line out, and cover the lines above.

const MOST_MARKS = 16;
const TOO_MANY = new RegExp(`(\\p{M}{${MOST_MARKS}})\\p{M}+`, "gu");

/** A text with no more marks on a letter than a page can bear. What comes of its beginning is the beginning of what comes of it. */
export function calm(text: string): string {
  return text.replace(TOO_MANY, "$1");
}
