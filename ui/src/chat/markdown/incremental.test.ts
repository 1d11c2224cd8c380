import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";

// Sanitising needs a browser's document. It treats each piece alone, so equal pieces stay equal.
let cleanedChars = 0;
vi.mock("./sanitise", () => ({
  sanitise: (html: string): string => {
    cleanedChars += html.length;
    return html;
  },
}));

import { loadHighlighter } from "./code";
import { IncrementalMarkdown } from "./incremental";
import { type Block, blocks } from "./render";

/** Parts of answers, some cut at bad places. */
const PARTS = [
  "# A heading",
  "A paragraph with **bold**, *slanted* and `code`, and a [link](https://example.com).",
  "A long line that goes on\nin the next one\nand in a third.",
  "A heading of two lines\n===",
  "Another\n---",
  "- one\n- two\n  - inner\n- three",
  "- loose\n\n- as it has blank lines\n\n  with a paragraph",
  "1. first\n\n2. second\n\n12. third",
  "3) three\n4) four",
  "* a\n\n\n* b",
  "- [ ] open\n- [x] done",
  "1. **Step**\n\n   ```sh\n   make\n\n   make install\n   ```\n\n2. Next",
  "```js\nconst a = 1;\n\n\nconst b = `x`;\n```",
  "~~~\nno language\n~~~",
  "````md\n```\ninner\n```\n````",
  "    indented\n\n    code",
  "| a | b |\n|---|--:|\n| 1 | 2 |\n| $x$ | `y` |",
  "> quoted\n> lines\nand a lazy one",
  "> - a list\n> - in it\n\n> and another",
  "Euler: $e^{i\\pi} + 1 = 0$, and \\(a+b\\), but $5 and $6 are prices.",
  "$$\n\\begin{aligned}\na &= b \\\\\n- c &= d \\\\\n+ e\n\\end{aligned}\n$$",
  "\\[\n- x + y\n\\]\nand on",
  "$$ never closed",
  "$$ closed\n\nafter a blank line $$",
  "***",
  "- - -",
  "<details><summary>More</summary>\n\ninside\n\n</details>",
  "<!-- a comment\n\nover a blank line -->",
  "<b onclick=\"x()\">raw</b> and <script>alert(1)</script>",
  "Line with two spaces  \nand a break\\\nand another",
  "中文的段落，没有空格。",
  "2",
  "-",
  "+ ",
  "\\",
];
const BETWEEN = ["\n\n", "\n\n", "\n\n", "\n", "\n\n\n", "\n \n", "\r\n\r\n", "\r\n"];

/** Deterministic pseudo-random numbers. */
function chance(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

function text(seed: number, parts: number): string {
  const pick = chance(seed);
  return Array.from({ length: parts }, () => PARTS[pick(PARTS.length)] + (BETWEEN[pick(BETWEEN.length)] ?? "")).join("");
}

/** Reference: renders the whole text. Line ends are normalised as in the lexer. */
const whole = (source: string): Block[] => blocks(source.replace(/\r\n?/g, "\n"));

function check(source: string, cuts: (length: number, at: number) => number): void {
  const growing = new IncrementalMarkdown();
  for (let at = 0; at < source.length; at = cuts(source.length, at)) {
    const so_far = source.slice(0, at);
    expect(growing.blocks(so_far), `after ${JSON.stringify(so_far.slice(-80))}`).toEqual(whole(so_far));
  }
  expect(growing.finish(source), "at the end").toEqual(whole(source));
}

describe("incremental rendering equals rendering the whole text", () => {
  it("character by character, for every pair of parts", () => {
    const pick = chance(7);
    for (const part of PARTS) check(`Before.\n\n${part}\n\n${PARTS[pick(PARTS.length)]}\n\nAfter.\n`, (_, at) => at + 1);
  }, 30_000);
  it("in chunks of any length, for random texts", () => {
    for (let seed = 1; seed <= 150; seed += 1) {
      const pick = chance(seed * 31);
      check(text(seed, 14), (_, at) => at + 1 + pick(24));
    }
  }, 30_000);
  it("with the highlighter and KaTeX loaded", async () => {
    const source = "Say $x^2$.\n\n- `a`\n\n  ```js\n  let a = 1;\n  ```\n\nOn.\n\nMore $y$.\n";
    const growing = new IncrementalMarkdown();
    const before = growing.blocks(source);
    await Promise.all([loadHighlighter(), import("katex").then(() => new Promise((resume) => setTimeout(resume, 20)))]);
    const after = growing.blocks(source);
    expect(after, "formulas and code look different").not.toEqual(before);
    expect(after).toEqual(whole(source));
    for (let seed = 500; seed <= 530; seed += 1) check(text(seed, 10), (_, at) => at + 11);
  });
});

describe("reference links", () => {
  const source = "See [one][a] and [two].\n\n[a]: https://a.example\n\nThen [one again][a].\n\nEnd.\n\n[two]: https://b.example\n";
  it("use earlier definitions at once, and all definitions at the end", () => {
    const growing = new IncrementalMarkdown();
    for (let at = 0; at < source.length; at += 1) growing.blocks(source.slice(0, at));
    expect(JSON.stringify(growing.blocks(source)), "earlier definitions apply").toMatch(/a\.example[^<]*">one again/);
    expect(growing.finish(source)).toEqual(whole(source));
  });
});

describe("rendering cost", () => {
  const source = Array.from({ length: 120 }, (_, seed) => text(seed + 1000, 6).replace(/<!--[\s\S]*?-->/g, "")).join("\n\n");
  let before = 0;
  beforeAll(() => (before = cleanedChars));
  afterAll(() => (cleanedChars = before));

  it("is linear in the length of the text", () => {
    const growing = new IncrementalMarkdown();
    const steps = Math.ceil(source.length / 12);
    for (let step = 1; step <= steps; step += 1) growing.blocks(source.slice(0, step * 12));
    growing.finish(source);
    const drawn = (cleanedChars - before) / source.length;
    expect(drawn, `${Math.round(drawn)} times what it is, in ${steps} steps`).toBeLessThan(60);
  });
});

it("another text starts over", () => {
  const growing = new IncrementalMarkdown();
  growing.blocks("# One\n\nText of one\n\nmore\n");
  expect(growing.blocks("# Two\n\nText\n")).toEqual(whole("# Two\n\nText\n"));
});
