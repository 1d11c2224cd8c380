// Edges that new users met: a new address in an old tab, two windows, a daemon that ends during an answer, keys and small windows.
import { check, open } from "./browser.mjs";
import { text } from "./words.mjs";

export async function edges(browser, daemon) {
  console.log("edges");
  await renewed(browser, daemon);
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
