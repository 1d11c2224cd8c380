// Edges that new users met: a new address in an old tab, two windows, a daemon that ends during an answer, keys and small windows.
import { mkdirSync, readdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { answer } from "./answer.mjs";
import { check, open } from "./browser.mjs";
import { names } from "./axe.mjs";
import { Replay } from "./replay.mjs";
import { stream } from "./samples.mjs";
import { text } from "./words.mjs";

const OUT = join(import.meta.dirname, "out");

export async function edges(browser, daemon) {
  console.log("edges");
  mkdirSync(OUT, { recursive: true });
  await keyboard(browser, daemon);
  await find(browser, daemon);
  await actions(browser, daemon);
  await narrow(browser, daemon);
  await renewed(browser, daemon);
  await missingFile(browser, daemon);
  await killed(browser, daemon);
}

/** A copy of Pebble with a file that disappears. */
async function missingFile(browser, daemon) {
  await fetch(`${daemon.address}/api/copy`, { method: "POST", body: JSON.stringify({ source: "pebble", destination: "stone" }) });
  const blobs = join(daemon.home, "models/blobs");
  const [largest] = readdirSync(blobs).sort((a, b) => statSync(join(blobs, b)).size - statSync(join(blobs, a)).size);
  rmSync(join(blobs, largest));
  const { page, context } = await open(browser, daemon);
  await page.goto(`${daemon.address}/ui/#/models/installed`);
  const badge = page.locator(`tr:has-text('stone') .fit:has-text('${text("models.fit_missing")}')`);
  await badge.waitFor();
  await badge.click();
  await page.waitForSelector(`.sum button:has-text('${text("models.repair")}')`);
  check(true, "a model without its file is marked, and can be downloaded again");
  await page.goto(`${daemon.address}/ui/#/chat`);
  await page.evaluate(() => localStorage.setItem("cairn.model", "stone:latest"));
  await page.reload();
  await page.waitForSelector(".model-picker:has-text('stone')");
  const before = await page.locator(".chat-row").count();
  check((await page.textContent(".under")).includes(text("chat.where_here")), "a chat with a model of this computer stays there");
  await page.fill(".composer textarea", "Hello");
  await page.keyboard.press("Enter");
  await page.waitForSelector(".refused");
  await page.waitForFunction(() => document.querySelector(".composer textarea")?.value === "Hello");
  await page.waitForFunction((count) => document.querySelectorAll(".chat-row").length === count && location.hash === "#/chat", before);
  check(true, "a refused first message leaves no empty chat, and its text stays");
  await fetch(`${daemon.address}/api/delete`, { method: "DELETE", body: JSON.stringify({ model: "stone" }) });
  await context.close();
}

/** Reached by keyboard only: the skip link, and a list with one tab stop a row. */
async function keyboard(browser, daemon) {
  const at = new Date().toISOString();
  const chats = ["One", "Two"].map((title) => ({ id: title, title, pinned: false, created_at: at, updated_at: at, head: "m", messages: [{ id: "m", role: "user", content: `${title}\n\n- a`, created_at: at, state: "complete" }] }));
  await daemon.app("POST", "/app/chats/import", { export: { format: "cairn-chats", version: 1, exported_at: at, chats } });
  const { page, context } = await open(browser, daemon);
  await page.waitForSelector(".chat-row");
  const found = [];
  for (const route of ["chat", "models/installed", "models/discover", "models/downloads", "cache", "hardware", "server", "settings"]) {
    await page.goto(`${daemon.address}/ui/#/${route}`);
    await page.waitForSelector("main h1, main .title");
    await page.waitForTimeout(300);
    found.push(...(await names(page)).map((one) => `${route}: ${one}`));
  }
  check(found.length === 0, `no heading is skipped, and names contain the visible words: ${found.join(" | ")}`);
  await page.goto(`${daemon.address}/ui/#/chat`);
  await page.waitForSelector(".chat-row .chat-more");
  await page.evaluate(() => (document.body.setAttribute("tabindex", "-1"), document.body.focus()));
  await page.keyboard.press("Tab");
  check((await page.evaluate(() => document.activeElement?.textContent)) === text("shell.skip"), "the first tab stop skips to the content");
  await page.keyboard.press("Enter");
  check(await page.evaluate(() => document.activeElement?.matches("main")), "the focus is in the content");
  await page.locator(".chat-row a").first().focus();
  await page.keyboard.press("Tab");
  check(await page.evaluate(() => document.activeElement === document.querySelectorAll(".chat-row a")[1]), "a row of the list is one tab stop");
  await page.keyboard.press("ArrowRight");
  await page.waitForSelector(".menu .menu-item:focus");
  await page.keyboard.press("Escape");
  check(await page.evaluate(() => document.activeElement === document.querySelectorAll(".chat-row a")[1]), "the right arrow opens the menu of a row, and Esc returns to it");
  await context.close();
}

/** Words of a chat are counted and marked, and no mark stays. */
async function find(browser, daemon) {
  const at = new Date().toISOString();
  const messages = [
    { id: "m1", role: "user", content: "A bird?", created_at: at, state: "complete" },
    { id: "m2", parent: "m1", role: "assistant", content: "Two **bird**s, and a `Bird` in code.", created_at: at, state: "complete" },
  ];
  await daemon.app("POST", "/app/chats/import", { export: { format: "cairn-chats", version: 1, exported_at: at, chats: [{ id: "birds", title: "Birds", pinned: false, created_at: at, updated_at: at, head: "m2", messages }] } });
  const { page, context } = await open(browser, daemon);
  await page.click(".chat-row a:has-text('Birds')");
  await page.waitForSelector("article.assistant .prose");
  await page.keyboard.press("Control+f");
  await page.keyboard.type("bird");
  const marked = () => page.evaluate(() => [...(CSS.highlights.get("find") ?? [])].map(String));
  const current = () => page.evaluate(() => [...(CSS.highlights.get("find-current") ?? [])].map((range) => `${range} ${range.startContainer.parentElement.tagName}`));
  await page.waitForFunction(() => CSS.highlights.get("find-current")?.size === 1);
  check((await marked()).join() === "bird,bird,Bird", `the words are marked: ${await marked()}`);
  check((await page.textContent(".find-bar [role=status]")).includes("3"), "each occurrence counts");
  check((await current()).join() === "Bird CODE", `the last one is current: ${await current()}`);
  await page.keyboard.press("Enter");
  check((await current()).join() === "bird STRONG", `Enter goes to the one before: ${await current()}`);
  await page.screenshot({ path: join(OUT, "find.png") });
  await page.keyboard.press("Escape");
  check((await marked()).length === 0 && (await page.locator(".found").count()) === 0, "Esc removes the marks");
  await context.close();
}

/** Actions where people look for them: in the palette, the list of models, and a pasted link. */
async function actions(browser, daemon) {
  const { page, context } = await open(browser, daemon);
  const palette = async (words, label) => {
    await page.keyboard.press("Control+k");
    await page.fill(".palette input", words);
    await page.locator(".palette .menu-item", { hasText: label }).first().click();
  };
  await page.waitForSelector(".chat-row");
  await palette(text("shell.theme_dark"), text("shell.theme_dark"));
  await page.waitForFunction(() => document.documentElement.dataset.theme === "dark");
  await palette(text("settings.of_network_proxy"), text("settings.of_network_proxy"));
  await page.waitForFunction(() => location.hash === "#/settings/network");
  check(true, "the palette has themes and settings");
  await palette(text("shell.do_import_model"), text("shell.do_import_model"));
  await page.waitForSelector(`dialog[open]:has-text('${text("models.import_title")}')`);
  check((await page.evaluate(() => location.hash)) === "#/models/installed", "the palette opens the import of a model file");
  await page.keyboard.press("Escape");
  await page.goto(`${daemon.address}/ui/#/models/installed/pebble:latest`);
  await page.waitForSelector("dialog.side[open] .facts");
  check(await page.locator(`dialog.side button:has-text('${text("models.chat_with")}')`).isVisible(), "a link to a model opens its details at the side, with a chat");
  await page.keyboard.press("Escape");
  await page.click(`tr:has-text('pebble') button[aria-label*='${text("models.chat_about")}']`);
  await page.waitForSelector(".new-chat");
  await page.waitForSelector(".model-picker:has-text('pebble')");
  check(true, "a chat begins from the list of models");
  await page.goto(`${daemon.address}/ui/#/models/discover`);
  await page.waitForSelector("article.model");
  await page.fill("input[type=search]", "ollama run qwen3:0.6b");
  await page.waitForSelector(".pasted");
  check((await page.locator("article.model").count()) === 0, "a pasted link leaves no old results");
  await context.close();
}

/** In a narrow window the text of an error has the width of its card. */
async function narrow(browser, daemon) {
  const { page, context } = await open(browser, daemon, { width: 400, height: 800 });
  const error = { error: "connection refused", code: "registry_unreachable", params: { reason: "connection refused" } };
  await stream(page, daemon, "/app/downloads/events", { downloads: [{ id: 1, model: "qwen3:0.6b", state: "failed", total: 0, completed: 0, bytes_per_second: 0, held_bytes: 0, detached: true, error }] });
  await page.reload();
  await page.goto(`${daemon.address}/ui/#/models/downloads`);
  const words = page.locator(".drow .notice > .grow");
  await words.waitFor();
  await page.screenshot({ path: join(OUT, "download-failed-400.png") });
  const { width } = await words.boundingBox();
  check(width >= 220, `the error of a download has room at 400 px: ${width} px`);
  await context.close();
}

async function renewed(browser, daemon) {
  const { page, context } = await open(browser, daemon);
  await page.goto(`${daemon.address}/ui/#/cache`);
  await page.waitForSelector(".cache-grid");
  await page.evaluate(() => sessionStorage.clear());
  await page.reload();
  await page.waitForSelector(`.status-bar button:has-text('${text("shell.denied")}')`);
  check(true, "a tab without a session reports it");
  // The same tab: only the fragment of the address changes.
  await page.evaluate((url) => void (location.href = url), daemon.ticket());
  await page.waitForSelector(".cache-grid");
  await page.waitForSelector(`.status-bar button:has-text('${new URL(daemon.address).host}')`);
  check((await page.evaluate(() => location.hash)) === "#/cache", "a new address in the same tab renews the session on the same screen");

  const other = await context.newPage();
  await other.goto(daemon.ticket());
  await other.waitForSelector(".composer textarea");
  await page.bringToFront();
  await page.goto(`${daemon.address}/ui/#/settings/appearance`);
  await page.locator(`label:has-text('${text("settings.theme_dark")}'), button:has-text('${text("settings.theme_dark")}')`).first().click();
  await other.waitForFunction(() => document.documentElement.dataset.theme === "dark", undefined, { timeout: 5_000 });
  check(true, "a theme reaches other windows at once");
  await context.close();
}

/** The daemon ends in the middle of an answer and starts again. */
async function killed(browser, daemon) {
  const replay = await Replay.before(daemon);
  [replay.pieces, replay.perSecond] = [answer(2_000), 50];
  const { page, context } = await open(browser, replay);
  await page.fill(".composer textarea", "Hello");
  await page.keyboard.press("Enter");
  await page.waitForSelector("article.assistant[aria-busy='true'] .prose");
  await page.waitForSelector(".with-caret");
  await daemon.kill();
  replay.cut();
  const report = page.locator("article.assistant .broken");
  await report.waitFor();
  const words = await report.textContent();
  check(words.includes(text("common.offline")) || words.includes(text("chat.state_interrupted")), `a daemon that ended is reported in the answer: ${words.trim()}`);
  check((await page.locator(".caret, .with-caret").count()) === 0, "no caret blinks without a daemon");
  await daemon.run();
  await report.getByText(text("errors.unauthorized")).waitFor();
  check(true, "a restarted daemon, which refuses the session of a browser, is reported there");
  await page.evaluate((url) => void (location.href = url), replay.ticket());
  await page.waitForSelector(`article.assistant .broken button:has-text('${text("chat.continue")}')`, { timeout: 30_000 });
  check(true, "the interrupted answer can be continued once the daemon is back");
  await context.close();
  replay.close();
}
