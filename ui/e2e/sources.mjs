// Questions that are answered from a collection of documents: chosen in the composer, with the passages under the question, and
// those that an answer names under the answer.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { faults, names } from "./axe.mjs";
import { check, open } from "./browser.mjs";
import { spoken, text } from "./words.mjs";

const OUT = join(import.meta.dirname, "out");
const WAIT = { timeout: 20_000 };
const NAME = "Harbour <b>papers</b>";
const LAMP = "The lamp at the harbour is green.";

/** An answered question with three passages, two of which the answer names. */
function sample() {
  const at = new Date().toISOString();
  const hit = (document, place, passage) => ({ document, name: `${document}.pdf`, place, chunk: 0, text: passage, score: 0.5, by: ["words"] });
  const hits = [hit("lamps", { kind: "page", number: 7 }, LAMP), hit("tides", { kind: "whole" }, "High water at noon."), hit("rules", { kind: "sheet", name: "Fees" }, "<img src=x onerror='window.owned=1'>")];
  const messages = [
    { id: "q1", role: "user", content: "Which lamp is green?", created_at: at, state: "complete", sources: { collection: "gone", name: NAME, first: 1, hits, words_only: "script" } },
    { id: "a1", parent: "q1", role: "assistant", content: "The lamp at the harbour [1], for a fee [3]. No page [9] says more.", model: "pebble", created_at: at, state: "complete" },
  ];
  return { format: "cairn-chats", version: 1, exported_at: at, chats: [{ id: "cited", title: "Cited", pinned: false, created_at: at, updated_at: at, head: "a1", messages }] };
}

export async function sources(browser, daemon) {
  console.log("sources");
  mkdirSync(OUT, { recursive: true });
  const { page, noted, context } = await open(browser, daemon);
  const bad = [];
  const shoot = async (name) => {
    await page.waitForTimeout(250);
    await page.screenshot({ path: join(OUT, `sources-${name}-${spoken()}.png`) });
    bad.push(...[...(await faults(page)), ...(await names(page))].map((one) => `${name}: ${one}`));
  };
  const choose = page.locator(`.composer button[aria-label='${text("chat.documents_choose")}']`);
  try {
    check((await choose.count()) === 0, "without a collection, the composer offers none");
    const { id } = await daemon.app("POST", "/app/collections", { name: NAME, model: "" });
    await daemon.app("POST", `/app/collections/${id}/documents?name=lamps.txt`, { note: LAMP });
    await page.reload();
    await choose.click(WAIT);
    await shoot("choice");
    await page.locator(".menu .menu-item", { hasText: NAME }).click();
    const chosen = page.locator(".documents-choice");
    check((await chosen.textContent()).includes(NAME), "the chosen collection is named in the composer");

    await page.fill(".composer textarea", "Which lamp is green?");
    await page.keyboard.press("Enter");
    const found = page.locator("article.user .question-sources button");
    await found.waitFor(WAIT);
    check((await found.textContent()).includes(NAME), "the question counts its passages");
    await found.click();
    const chip = page.locator("article.user .source");
    check((await chip.textContent()).includes("lamps.txt"), "a passage has the name of its document");
    await page.waitForSelector("article.latest .msg-foot", { timeout: 60_000 });
    await shoot("asked");
    await chip.click();
    const dialog = page.locator("dialog[open]");
    await dialog.locator(".passage", { hasText: LAMP }).waitFor(WAIT);
    check(true, "a passage can be read");
    await shoot("passage");
    await dialog.locator("a").click();
    await page.waitForFunction((id) => location.hash === `#/documents/${id}`, id);
    check((await page.locator("dialog[open]").count()) === 0, "its collection can be opened");
    await page.goBack();
    await chosen.waitFor(WAIT);
    check((await chosen.textContent()).includes(NAME), "the chat keeps its collection");

    await daemon.app("DELETE", `/app/collections/${id}`);
    await page.fill(".composer textarea", "And now?");
    await page.keyboard.press("Enter");
    const failed = page.locator("article.user .question-sources .notice");
    await failed.waitFor(WAIT);
    check((await failed.textContent()).includes(text("errors.collection_not_found")), "a deleted collection is reported under the question");
    await page.waitForSelector("article.latest .msg-foot", { timeout: 60_000 });
    await shoot("failed");
    await chosen.locator("button").click();
    await chosen.waitFor({ state: "detached" });
    await page.fill(".composer textarea", "Thanks");
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => document.querySelectorAll("article.user").length === 3);
    check((await page.locator("article.user").last().locator(".question-sources").count()) === 0, "without a collection, nothing is searched");
    await page.waitForSelector("article.latest .msg-foot", { timeout: 60_000 });

    await daemon.app("POST", "/app/chats/import", { export: sample() });
    const cited = (await daemon.app("GET", "/app/chats")).chats.find((one) => one.title === "Cited");
    await page.goto(`${daemon.address}/ui/#/chat/${cited.id}`);
    const marks = page.locator("article.assistant .source");
    await marks.nth(1).waitFor(WAIT);
    const labels = (await marks.allTextContents()).map((one) => one.trim());
    check(labels.length === 2 && labels[0].includes("lamps.pdf") && labels[0].includes("7") && labels[1].includes("rules.pdf"), `the passages that the answer names are under it: ${labels.join(" | ")}`);
    check((await page.locator("article.user").textContent()).includes(text("documents.only_script")), "and the question says why it was searched by words only");
    await marks.nth(1).click();
    await dialog.locator(".passage", { hasText: "onerror" }).waitFor(WAIT);
    check((await page.evaluate(() => window.owned)) === undefined, "a passage is plain text");
    await page.keyboard.press("Escape");
    await page.setViewportSize({ width: 400, height: 800 });
    await shoot("cited-400");
    for (const one of new Set(bad)) console.log(`  ${one}`);
    check(bad.length === 0, "no accessibility or layout fault");
    check(noted.errors.length === 0, `no error ${noted.errors.join(" | ")}`);
    check(noted.foreign.length === 0, "no request to another host");
  } finally {
    await context.close();
  }
}
