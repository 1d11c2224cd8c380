// Limits combining marks on one letter; some languages need three or four. Thousands of them block a browser's layout for minutes
// and cover the lines above.

const MOST_MARKS = 16;
const TOO_MANY = new RegExp(`(\\p{M}{${MOST_MARKS}})\\p{M}+`, "gu");

/** Removes excess combining marks. The result for a prefix of a text is a prefix of the result. */
export function limitCombiningMarks(text: string): string {
  return text.replace(TOO_MANY, "$1");
}
