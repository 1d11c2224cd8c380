// Passages that a search found, with the words of the query.
/** Characters of scripts without spaces, as the index has them. */
const DENSE = "\\u2e80-\\u2fdf\\u3005-\\u3007\\u3041-\\u309f\\u30a1-\\u30fa\\u30fc-\\u30ff\\u3100-\\u312f\\u1100-\\u11ff\\u3130-\\u318f\\uac00-\\ud7af\\u31a0-\\u31ff\\u3400-\\u4dbf\\u4e00-\\u9fff\\uf900-\\ufaff\\uff66-\\uff9f\\u{20000}-\\u{3ffff}";
const RUNS = new RegExp(`(?<dense>[${DENSE}]+)|(?:(?![${DENSE}])[\\p{L}\\p{N}\\p{M}])+`, "gu");
/** English words that are in most texts. The daemon searches without them, unless the query has no others. */
const COMMON = new Set(
  ("a about all am an and any are as at be been being but by can could did do does for from had has have he her his how i if in into is it its may me " +
    "might must my no not of on or our shall she should so than that the their them then there these they this those to too was we were what when where " +
    "which while why will with would you your").split(" "),
);

/** The stem of a word, nearly as the index has it: English words match in all their forms. */
export function stem(word: string): string {
  const plain = word.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase();
  if (!/^[a-z]{4,}$/.test(plain)) return plain;
  const single = /(?:ss|us)$/.test(plain) ? plain : plain.replace(/ies$/, "y").replace(/(?:(ss|sh|ch|x)e)?s$/, "$1");
  const cut = single.replace(/(?:ed|ing|ly)$/, "");
  const base = cut.length >= 3 && /[aeiouy]/.test(cut) ? cut : single;
  return base.replace(/([^aeiouls])\1$/, "$1").replace(/e$/, "").replace(/y$/, "i");
}

const runsOf = (text: string): { at: number; run: string; isDense: boolean }[] =>
  [...text.matchAll(RUNS)].map((match) => ({ at: match.index, run: match[0], isDense: match.groups?.["dense"] !== undefined }));

/** Neighbouring characters of a run, with their places; of a run of one character that one. */
function pairs(run: string): { at: number; pair: string }[] {
  const signs = [...run];
  let at = 0;
  const places = signs.map((sign) => (at += sign.length) - sign.length);
  if (signs.length === 1) return [{ at: 0, pair: run }];
  return signs.slice(1).map((sign, index) => ({ at: places[index] ?? 0, pair: `${signs[index]}${sign}` }));
}

/** Words, pairs and single characters of a query. */
function terms(query: string): { words: Set<string>; pairs: Set<string> } {
  const runs = runsOf(query);
  const isCommon = ({ run, isDense }: { run: string; isDense: boolean }): boolean => !isDense && COMMON.has(run.toLowerCase());
  const rare = runs.filter((one) => !isCommon(one));
  const used = rare.length > 0 ? rare : runs;
  return {
    words: new Set(used.filter((one) => !one.isDense).map((one) => stem(one.run))),
    pairs: new Set(used.filter((one) => one.isDense).flatMap((one) => pairs(one.run).map(({ pair }) => pair))),
  };
}

/** A part of a passage; `hit` if it is a word of the query. */
export interface Part {
  text: string;
  hit: boolean;
}

/** Splits a passage at the words of a query. */
export function markWords(text: string, query: string): Part[] {
  const wanted = terms(query);
  const singles = [...wanted.pairs].filter((pair) => [...pair].length === 1);
  const ranges: [number, number][] = [];
  const push = (from: number, to: number): void => {
    const last = ranges.at(-1);
    if (last !== undefined && from <= last[1]) last[1] = Math.max(last[1], to);
    else ranges.push([from, to]);
  };
  for (const { at, run, isDense } of runsOf(text)) {
    if (!isDense) {
      if (wanted.words.has(stem(run))) push(at, at + run.length);
      continue;
    }
    const found = pairs(run).filter(({ pair }) => wanted.pairs.has(pair)).map(({ at: inRun, pair }): [number, number] => [inRun, inRun + pair.length]);
    for (const single of singles) for (let from = run.indexOf(single); from >= 0; from = run.indexOf(single, from + 1)) found.push([from, from + single.length]);
    for (const [from, to] of found.sort((a, b) => a[0] - b[0])) push(at + from, at + to);
  }
  const parts: Part[] = [];
  let done = 0;
  for (const [from, to] of ranges) {
    if (from > done) parts.push({ text: text.slice(done, from), hit: false });
    parts.push({ text: text.slice(from, to), hit: true });
    done = to;
  }
  if (done < text.length) parts.push({ text: text.slice(done), hit: false });
  return parts;
}
