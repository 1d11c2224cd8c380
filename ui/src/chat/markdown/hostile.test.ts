import { beforeAll, describe, expect, it, vi } from "vitest";

// Sanitising needs a browser's document.
vi.mock("./sanitise", () => ({ sanitise: (html: string): string => html }));

import { loadHighlighter } from "./code";
import { IncrementalMarkdown } from "./incremental";
import { type Block, blocks } from "./render";

/** Limit of CPU time, which other programs do not affect. It is far above the time on a slow machine, and below the time of
 * each text here that once froze the page. */
const MOST_MS = 3000;
const many = (text: string, times: number): string => text.repeat(times);
const lines = (count: number, line: (at: number) => string): string => Array.from({ length: count }, (_, at) => line(at)).join("\n");

/** Repeats a text to the length of a long answer. */
const fill = (text: string): string => many(text, Math.ceil(90_000 / text.length));

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
  headings: fill("\n\n#"),
  "headings without blank lines": fill("# a\n"),
  "headings and paragraphs": fill("a\n# b\n"),
  "a tall table": `|a|b|c|\n|-|-|-|\n${fill("|1|2|3|\n")}`,
  "a table of short rows below a wide header": `${many("|a", 2000)}\n${many("|-", 2000)}\n${fill("|x|\n")}`,
  "a wide table": `${many("|a", 200)}\n${many("|-", 200)}\n${lines(225, () => many("|a", 200))}`,
  "many tables": fill("a|b\n-|-\nc|d\n\n"),
  "nested items": lines(1500, (at) => `${many("  ", at % 30)}- x`),
  "ever deeper items": lines(300, (at) => `${many(" ", at)}- x`),
  "a loose list": fill("- a\n\n"),
  "quoted headings": fill("> # a\n"),
  "many code blocks": fill("```js\nlet a;\n```\n"),
  "a long code block": `\`\`\`js\n${fill("let a = 1;\n")}`,
  "the same formula": fill("$x$ "),
  "different formulas": `${lines(2000, (at) => `$x_{${at}}$`)}`.replaceAll("\n", " ").slice(0, 9900),
  "paragraphs of formulas": fill("$x$ $y$\n\n"),
  "pipes without a line end": fill("|)_"),
  "lines of displays that never close": fill("\\[\n"),
  "lines of dollars that never close": fill("$$&\n"),
  "a display on every second line": fill("\\$$\n"),
  "headings that are never underlined": fill("|-|\n`=\n[a]:\n"),
  "two openings on a line": fill("$$\\[\n"),
  accents: `a${many("\u0301", 50_000)}`,
};

/** Elements that blocks put into the page. */
function elements(blocks: readonly Block[]): number {
  const html = blocks.flatMap((block) => (block.kind === "list" ? block.items : block.kind === "html" ? [block.html] : [])).join("");
  return blocks.length + (html.match(/<\w/g)?.length ?? 0);
}
/** Elements that a browser lays out without a noticeable pause. */
const MOST_ELEMENTS = 40_000;

beforeAll(async () => {
  await loadHighlighter();
  blocks("$x$");
  await vi.waitFor(() => expect(JSON.stringify(blocks("$x$"))).toContain("katex"));
});

// CPU time is limited, not the time of a busy machine.
describe("hostile text renders in bounded time", { timeout: 60_000 }, () => {
  for (const [name, text] of Object.entries(TEXTS)) {
    it(name, () => {
      const from = process.cpuUsage();
      const whole = blocks(text);
      const took = process.cpuUsage(from).user / 1000;
      expect(whole.length, "something is shown").toBeGreaterThan(0);
      expect(took, `${text.length} characters`).toBeLessThan(MOST_MS);
      expect(elements(whole), "elements at once").toBeLessThan(MOST_ELEMENTS);
      const growing = new IncrementalMarkdown();
      growing.blocks(text.slice(0, text.length / 2));
      expect(growing.finish(text).length, "while it grows, too").toBe(whole.length);
    });
  }
});

/** Texts with an end that is never frozen, or with very many blocks. */
const GROWING = ["headings without blank lines", "a tall table", "a loose list", "quoted headings", "different formulas"];
const STEPS = 400;
/** Limit for all steps together, far above the time on a slow machine. */
const MOST_GROWING_MS = 8000;

describe("hostile text grows in bounded time", () => {
  for (const name of GROWING) {
    it(name, () => {
      const text = (TEXTS[name] ?? "").slice(0, 90_000);
      const growing = new IncrementalMarkdown();
      const from = process.cpuUsage();
      for (let step = 1; step <= STEPS; step += 1) {
        growing.blocks(text.slice(0, (text.length * step) / STEPS));
        if (process.cpuUsage(from).user > MOST_GROWING_MS * 1000) expect.fail(`step ${step} of ${STEPS}: ${MOST_GROWING_MS} ms are over`);
      }
      expect(growing.finish(text)).toEqual(blocks(text));
    }, 60_000);
  }
});

describe("a message that is too long to show at once", () => {
  const text = `${many("# a\n\n", 4000)}End`;
  it("has a rest, which further portions show", () => {
    const shown = blocks(text);
    const rest = shown.at(-1);
    expect(rest?.kind === "rest" && rest.chars).toBe(text.length - (shown.length - 1) * "# a\n\n".length + "\n\n".length);
    expect(blocks(text, 2).at(-1)).toEqual({ kind: "html", html: "<p>End</p>\n" });
    expect(new IncrementalMarkdown(2).blocks(text)).toEqual(blocks(text, 2));
  });
  it("is cut within a list, too", () => {
    const [list, rest] = blocks(many("- *a*\n", 20_000));
    expect(list?.kind === "list" && list.items.length).toBeGreaterThan(1000);
    expect(rest?.kind).toBe("rest");
    const all = blocks(many("- *a*\n", 20_000), 10)[0];
    expect(all?.kind === "list" && all.items.length).toBe(20_000);
  });
  it("loses no text of a table that is too large", () => {
    const [table] = blocks(TEXTS["a table of short rows below a wide header"] ?? "");
    const html = table?.kind === "html" ? table.html : "";
    expect(html).toContain("too large to format");
    expect(html.match(/\|x\|/g)?.length).toBe(22_500);
  });
});
