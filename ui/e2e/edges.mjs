// Edges that new users met: a new address in an old tab, two windows, a daemon that ends during an answer, keys and small windows.
import { readdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { answer } from "./answer.mjs";
import { check, open } from "./browser.mjs";
import { Replay } from "./replay.mjs";
import { text } from "./words.mjs";

export async function edges(browser, daemon) {
  console.log("edges");
  await renewed(browser, daemon);
  await missingFile(browser, daemon);
  await killed(browser, daemon);
}

/** A copy of Pebble whose file disappears. */
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
  check(true, "a model whose file is gone is marked, and can be downloaded again");
  await page.goto(`${daemon.address}/ui/#/chat`);
  await page.evaluate(() => localStorage.setItem("cairn.model", "stone:latest"));
  await page.reload();
  await page.waitForSelector(".model-picker:has-text('stone')");
  const before = await page.locator(".chat-row").count();
  await page.fill(".composer textarea", "Hello");
  await page.keyboard.press("Enter");
  await page.waitForSelector(".refused");
  await page.waitForFunction(() => document.querySelector(".composer textarea")?.value === "Hello");
  await page.waitForFunction((count) => document.querySelectorAll(".chat-row").length === count && location.hash === "#/chat", before);
  check(true, "a refused first message leaves no empty chat, and its text stays");
  await fetch(`${daemon.address}/api/delete`, { method: "DELETE", body: JSON.stringify({ model: "stone" }) });
  await context.close();
}

async function renewed(browser, daemon) {
  const { page, context } = await open(browser, daemon);
  await page.goto(`${daemon.address}/ui/#/cache`);
  await page.waitForSelector(".tier-row");
  await page.evaluate(() => sessionStorage.clear());
  await page.reload();
  await page.waitForSelector(`.status-bar button:has-text('${text("shell.denied")}')`);
  check(true, "a tab without a session reports it");
  // The same tab: only the fragment of the address changes.
  await page.evaluate((url) => void (location.href = url), daemon.ticket());
  await page.waitForSelector(".tier-row");
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
  await page.waitForSelector(".caret");
  await daemon.kill();
  replay.cut();
  const report = page.locator("article.assistant .broken");
  await report.waitFor();
  const words = await report.textContent();
  check(words.includes(text("common.offline")) || words.includes(text("chat.state_interrupted")), `a daemon that ended is reported in the answer: ${words.trim()}`);
  check((await page.locator(".caret").count()) === 0, "no caret blinks without a daemon");
  await daemon.run();
  await report.getByText(text("errors.unauthorized")).waitFor();
  check(true, "a restarted daemon, which refuses the session of a browser, is reported there");
  await page.evaluate((url) => void (location.href = url), replay.ticket());
  await page.waitForSelector(`article.assistant .broken button:has-text('${text("chat.continue")}')`, { timeout: 30_000 });
  check(true, "the interrupted answer can be continued once the daemon is back");
  await context.close();
  replay.close();
}
