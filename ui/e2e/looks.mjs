// Pictures of the chat screen in both languages, all themes and two sizes, for review; and the accessibility faults that axe finds.
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { check, open } from "./browser.mjs";

const OUT = join(import.meta.dirname, "out");
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const SIZES = [
  [1440, 900],
  [900, 600],
];

const SAMPLE = `The race is between the check and the claim: \`free_slots()\` reads, \`claim()\` lowers. Make the check *be* the claim:

\`\`\`rust
fn try_claim(&self) -> Option<Slot> {
    self.free
        .fetch_update(AcqRel, Acquire, |n| n.checked_sub(1)) // check and claim at once
        .ok()
        .map(|_| Slot::new(self))
}
\`\`\`

| tier | bytes | time |
|---|---:|---:|
| RAM | 7.8 GB | 42 ms |
| SSD | 31 GB | 180 ms |

1. First, the sum $\\sum_{i=1}^{n} i = \\frac{n(n+1)}{2}$ holds.
2. Then a picture: ![chart](http://example.test/chart.png)

$$\\int_0^1 x^2\\,dx = \\frac13$$

> Slot gives the count back in \`Drop\`. [Read more](https://example.org)`;

function sample() {
  const at = new Date().toISOString();
  const usage = { prompt_tokens: 12380, cached_tokens: 12304, ram_tokens: 0, ssd_tokens: 12304, remote_tokens: 0, restore_ms: 180, instead_of_ms: 11000, load_ms: 0, prompt_ms: 60, first_token_ms: 260, answer_tokens: 214, answer_ns: 4_533_898_305, total_ms: 4790, length_reached: false };
  const messages = [
    { id: "q1", role: "user", content: "Two requests in one tick can both take the last free slot. Where is the race?", files: [{ name: "scheduler.rs", text: "fn main() {}\n".repeat(800) }], created_at: at, state: "complete" },
    { id: "a0", parent: "q1", role: "assistant", content: "A first try.", model: "pebble", created_at: at, state: "stopped" },
    { id: "a1", parent: "q1", role: "assistant", content: SAMPLE, thinking: "The counter is read in free_slots() and written in claim().", thinking_ms: 8000, model: "pebble", created_at: at, state: "complete", usage },
    { id: "q2", parent: "a1", role: "user", content: "如果请求在排队时被取消呢？", created_at: at, state: "complete" },
    { id: "a2", parent: "q2", role: "assistant", content: "它从未占用槽位，所以没有什么要归还。", model: "pebble", created_at: at, state: "interrupted", usage: { ...usage, cached_tokens: 0, ssd_tokens: 0, recomputed: "changed", prompt_tokens: 3411 } },
  ];
  const chat = { id: "looks", title: "Race in the slot scheduler", pinned: false, created_at: at, updated_at: at, head: "a2", system: "You review Rust. Be brief.", messages };
  const others = ["Bread timing for 21 °C", "Regex for log lines", "Trip to Lofoten, ferry plan", "给小船起名"].map((title, index) => {
    const before = new Date(Date.now() - index * 3 * 86_400_000).toISOString();
    return { id: `other${index}`, title, pinned: index === 0, ...(index === 1 ? { folder: "Work" } : {}), created_at: before, updated_at: before, head: "m", messages: [{ id: "m", role: "user", content: title, created_at: before, state: "complete" }] };
  });
  return { format: "cairn-chats", version: 1, exported_at: at, chats: [chat, ...others] };
}

/** Whether the system has Chinese fonts: without them every character is the same box. */
function hasChinese(page) {
  return page.evaluate(() => {
    const drawn = (letter) => {
      const canvas = Object.assign(document.createElement("canvas"), { width: 40, height: 40 });
      const context = canvas.getContext("2d");
      context.font = `32px ${getComputedStyle(document.body).fontFamily}`;
      context.fillText(letter, 2, 34);
      return canvas.toDataURL();
    };
    return drawn("石") !== drawn("堆");
  });
}

export async function looks(browser, daemon) {
  console.log("looks");
  mkdirSync(OUT, { recursive: true });
  await daemon.app("POST", "/app/chats/import", { export: sample() });
  const { chats } = await daemon.app("GET", "/app/chats");
  const id = chats.find((chat) => chat.title === "Race in the slot scheduler").id;
  const bad = [];
  for (const language of ["en", "zh-CN"]) {
    for (const theme of ["light", "dark", "contrast"]) {
      for (const [width, height] of SIZES) {
        if (theme === "contrast" && width < 1000) continue;
        const { page, noted, context } = await open(browser, daemon, { width, height, theme, language });
        const shoot = async (name) => {
          await page.waitForTimeout(250);
          await page.screenshot({ path: join(OUT, `${name}-${language}-${theme}-${width}.png`) });
          const wide = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth + 1);
          if (wide) bad.push(`${name} ${language} ${theme} ${width}: wider than the window`);
          await page.evaluate(AXE);
          const found = await page.evaluate(async () => (await window.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa"] })).violations.filter((one) => ["serious", "critical"].includes(one.impact)).map((one) => `${one.id}: ${one.nodes.slice(0, 3).map((node) => node.target.join(" ")).join(", ")}`));
          bad.push(...found.map((one) => `${name} ${language} ${theme} ${width}: ${one}`));
        };
        if (!(await hasChinese(page))) bad.push("the system has no Chinese letters");
        await shoot("new");
        await page.goto(`${daemon.address}/ui/#/chat/${id}`);
        await page.waitForSelector("article.assistant .prose");
        await page.waitForSelector("math[display='block']");
        await page.waitForSelector(".prose td[align='right']");
        await shoot("chat");
        await page.$eval(".thread", (thread) => (thread.scrollTop = 0));
        await shoot("chat-top");
        await page.keyboard.press("Control+k");
        await page.waitForSelector(".palette .menu-item");
        await shoot("palette");
        await page.keyboard.press("Escape");
        await page.click(".model-picker");
        await page.waitForSelector(".picker-item");
        await shoot("models");
        await page.keyboard.press("Escape");
        await page.keyboard.press("Control+/");
        await shoot("shortcuts");
        await page.keyboard.press("Escape");
        if (noted.errors.length > 0) bad.push(`${language} ${theme} ${width}: ${noted.errors.join(" | ").slice(0, 300)}`);
        await context.close();
      }
    }
  }
  for (const one of new Set(bad)) console.log(`  ${one}`);
  check(bad.length === 0, "no serious accessibility or layout fault");
}
