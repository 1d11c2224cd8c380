import { beforeAll, describe, expect, it, vi } from "vitest";

// Sanitising needs a browser's document.
vi.mock("./sanitise", () => ({ sanitise: (html: string): string => html }));

import { loadHighlighter } from "./code";
import { IncrementalMarkdown } from "./incremental";
import { blocks } from "./render";

/** Far above the time on a slow machine, and far below what hangs a page. */
const MOST_MS = 1500;
const many = (text: string, times: number): string => text.repeat(times);
const lines = (count: number, line: (at: number) => string): string => Array.from({ length: count }, (_, at) => line(at)).join("\n");

/** Degenerate output of a model, and texts built to hang a page. */
const TEXTS: Record<string, string> = {
  "quotes in quotes": `${many("> ", 10_000)}x`,
  "quotes without blanks": `${many(">", 10_000)}x`,
  "lists in lists on a line": `${many("- ", 5000)}x`,
  "lists in lists": lines(300, (at) => `${many("  ", at)}- x`),
  "numbers in numbers": `${many("1. ", 3000)}x`,
  "quotes and lists": `${many("> - ", 3000)}x`,
  stars: many("*a ", 30_000),
  "stars within words": many("*a**b", 20_000),
  "only stars": many("*", 50_000),
  underlines: many("_a ", 30_000),
  "strong and never closed": many("**a ", 30_000),
  strikes: many("~~a ", 30_000),
  brackets: many("[", 50_000),
  "links that never close": many("[a](", 20_000),
  "links in links": `${many("[", 10_000)}a${many("](b)", 10_000)}`,
  pictures: many("![", 30_000),
  backticks: many("`a", 30_000),
  "runs of backticks": lines(300, (at) => many("`", at + 1)).replaceAll("\n", " "),
  tags: many("<a ", 30_000),
  comments: `x ${many("<!--", 20_000)}`,
  addresses: many("a@b.", 20_000),
  "web addresses": many("http://a.", 10_000),
  pipes: `${many("|", 5000)}\n${many("|-", 5000)}\n`,
  dollars: many("$a ", 30_000),
  "displays that never close": many("$$a ", 20_000),
  "formulas that never close": many("\\( ", 20_000),
  "many formulas at a line's begin": lines(5000, () => "\\[ x"),
  "deep formula": `$${many("{", 1990)}${many("}", 1990)}$`,
  "deep fraction": `$${many("\\frac{", 400)}a${many("}{b}", 400)}$`,
  "roots of roots": `$${many("\\sqrt", 790)}x$`,
  backslashes: many("\\", 50_000),
  entities: many("&a;", 20_000),
  "a long line": many("word ", 400_000),
  "a long word": many("a", 2_000_000),
  blanks: `a${many(" ", 100_000)}b`,
  "empty lines": `a${many("\n", 100_000)}b`,
  "many paragraphs": many("a b\n\n", 20_000),
  "a long list": many("- a\n", 20_000),
  "lazy lines": `> ${many("x\n", 20_000)}`,
  addressees: `x\n\n${many("[a]: b\n", 10_000)}`,
  "directions and joiners": many("\u202e\u200b\u200d", 30_000),
  accents: `a${many("\u0301", 50_000)}`,
};

beforeAll(async () => {
  await loadHighlighter();
  blocks("$x$");
  await vi.waitFor(() => expect(JSON.stringify(blocks("$x$"))).toContain("katex"));
});

describe("hostile text renders in bounded time", () => {
  for (const [name, text] of Object.entries(TEXTS)) {
    it(name, () => {
      const from = performance.now();
      const whole = blocks(text);
      const took = performance.now() - from;
      expect(whole.length, "something is shown").toBeGreaterThan(0);
      expect(took, `${text.length} characters`).toBeLessThan(MOST_MS);
      const growing = new IncrementalMarkdown();
      growing.blocks(text.slice(0, text.length / 2));
      expect(growing.finish(text).length, "while it grows, too").toBe(whole.length);
    });
  }
});
