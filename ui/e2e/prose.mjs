// Model output under the page's real policy: formulas are laid out, code is highlighted, and the policy refuses nothing.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { check, open } from "./browser.mjs";

const OUT = join(import.meta.dirname, "out");
const TEXT = String.raw`A fraction:

$$\frac{a + b}{c}$$

A matrix:

$$\begin{pmatrix} 1 & 22 \\ 333 & 4 \\ 5 & 66 \end{pmatrix}$$

A root:

$$\sqrt{\frac{1}{1 + x^2}}$$

Cases:

$$f(n) = \begin{cases} n/2 & \text{if } n \text{ is even} \\ 3n + 1 & \text{otherwise} \end{cases}$$

Lines:

$$\begin{aligned} a + b &= c \\ d &= e + f \end{aligned}$$

Letters $x \in \mathbb{R}$, $\mathcal{L}$, $\mathbf{v}$, $\boxed{E = mc^2}$ within a line, $\color{red}{r}$.

$$\sum_{i=1}^{n} \int_0^1 \underbrace{x^i}_{\text{power}} \, dx = \left( \frac{1}{2} + \frac13 \right)$$

` + "```python\ndef fib(n: int) -> int:\n    \"\"\"Numbers.\"\"\"\n    return n if n < 2 else fib(n - 1) + fib(n - 2)  # slow\n```\n";

/** Degenerate output that does not end, with a line of another direction in it. */
const PARAGRAPHS = 30_000;
const ASTRAY = `שלום\n\n${"a b c\n\n".repeat(PARAGRAPHS)}the end`;
/** Limit of the time, many times the usual one. */
const MOST_S = 10;

/** An export of a chat with one answer. */
function chat(title, text) {
  const at = new Date().toISOString();
  const messages = [
    { id: "q", role: "user", content: "Show me", created_at: at, state: "complete" },
    { id: "a", parent: "q", role: "assistant", content: text, created_at: at, state: "complete" },
  ];
  return { format: "cairn-chats", version: 1, exported_at: at, chats: [{ id: title, title, pinned: false, created_at: at, updated_at: at, head: "a", messages }] };
}

async function importChat(daemon, title, text) {
  await daemon.app("POST", "/app/chats/import", { export: chat(title, text) });
  const { chats } = await daemon.app("GET", "/app/chats");
  return chats.find((one) => one.title === title).id;
}

async function astray(browser, daemon) {
  const id = await importChat(daemon, "Astray", ASTRAY);
  const { page, context } = await open(browser, daemon);
  const start = performance.now();
  await page.goto(`${daemon.address}/ui/#/chat/${id}`);
  const more = page.locator(".prose > .block > .btn");
  await more.waitFor();
  const tookS = (performance.now() - start) / 1000;
  check(tookS < MOST_S, `an answer of ${PARAGRAPHS} paragraphs opens in ${tookS.toFixed(1)} s`);
  const count = () => page.evaluate(() => document.querySelectorAll(".prose > .block > p").length);
  const shown = await count();
  check(shown > 1000 && shown < PARAGRAPHS / 4, `it shows ${shown} paragraphs at first`);
  await more.click();
  await page.waitForFunction((before) => document.querySelectorAll(".prose > .block > p").length > before * 1.5, shown);
  check(true, `and ${await count()} after a click`);
  const [first, last] = await page.evaluate(() => {
    const all = [...document.querySelectorAll(".prose > .block > p")];
    return [all[0], all.at(-1)].map((one) => getComputedStyle(one).direction);
  });
  check(first === "rtl" && last === "ltr", "each paragraph has its own direction");
  await context.close();
}

/** The boxes of the innermost elements of the n-th formula with exactly this text. */
function boxes(page, formula, text) {
  return page.evaluate(
    ([formula, text]) =>
      [...document.querySelectorAll(".math.display .katex-html")[formula].querySelectorAll("*")]
        .filter((one) => one.childElementCount === 0 && one.textContent === text)
        .map((one) => one.getBoundingClientRect().toJSON()),
    [formula, text],
  );
}
const middle = (box) => (box.left + box.right) / 2;
const near = (a, b, px = 3) => Math.abs(a - b) <= px;

export async function prose(browser, daemon) {
  console.log("prose");
  mkdirSync(OUT, { recursive: true });
  const id = await importChat(daemon, "Formulas", TEXT);
  for (const theme of ["light", "dark"]) {
    const { page, noted, context } = await open(browser, daemon, { theme, height: 1400 });
    await page.goto(`${daemon.address}/ui/#/chat/${id}`);
    await page.waitForSelector(".math.display .katex-html [style]", { state: "attached" });
    await page.waitForSelector(".hljs-keyword");
    await page.evaluate(() => document.fonts.ready);
    await page.screenshot({ path: join(OUT, `prose-${theme}.png`) });

    const [[a], [c]] = [await boxes(page, 0, "a"), await boxes(page, 0, "c")];
    check(a.bottom <= c.top + 2 && near(middle(c), (a.left + (await boxes(page, 0, "b"))[0].right) / 2), "a fraction has centred parts, one above the other");
    const line = await page.$eval(".math.display .katex-html .frac-line", (one) => one.getBoundingClientRect().toJSON());
    check(line.top > a.top && line.bottom < c.bottom && line.width >= a.width, "a fraction has a line");

    const cells = Object.fromEntries(await Promise.all(["1", "22", "333", "4", "5", "66"].map(async (number) => [number, (await boxes(page, 1, number))[0]])));
    const [row, column] = [(number) => cells[number].top, (number) => middle(cells[number])];
    check(near(row("1"), row("22")) && near(row("333"), row("4")) && near(row("5"), row("66")), "a matrix has rows");
    check(row("1") < row("333") && row("333") < row("5"), "rows are below each other");
    check(near(column("1"), column("333")) && near(column("22"), column("4")) && column("22") > cells["333"].right, "a matrix has columns");
    const bracket = await page.$$eval(".math.display", (all) => {
      const parts = [...all[1].querySelectorAll(".mopen *")].map((one) => one.getBoundingClientRect());
      return { height: Math.max(...parts.map((box) => box.bottom)) - Math.min(...parts.map((box) => box.top)) };
    });
    check(bracket.height > (cells["5"].bottom - cells["1"].top) * 0.8, "brackets have the height of the matrix");

    const height = await page.$$eval(".math.display", (all) => all.map((one) => one.getBoundingClientRect().height));
    check(height.every((px) => px > 20 && px < 300), `each formula has its own height: ${height.map(Math.round).join(" ")}`);
    const colours = await page.$$eval("[class^=hljs-]", (all) => new Set(all.map((one) => getComputedStyle(one).color)).size);
    check(colours >= 3, `code has ${colours} colours`);
    check((await page.locator(".katex-mathml math").count()) >= 10, "MathML exists for screen readers");
    const visible = await page.$$eval(".katex-mathml", (all) => all.filter((one) => one.getBoundingClientRect().width > 2).length);
    check(visible === 0, "MathML is not visible");
    check(noted.foreign.length === 0, "no other host was contacted");
    check(noted.errors.length === 0, `the page's policy refused nothing ${noted.errors.join(" | ").slice(0, 300)}`);
    await context.close();
  }
  await astray(browser, daemon);
}
