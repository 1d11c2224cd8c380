// What the daemon refuses and why, in the language of the interface: it says so in English itself.
import { check, open } from "./browser.mjs";

/** Nobody listens there. */
const NOBODY = "127.0.0.1:9/library/nothing:latest";

export async function told(browser, daemon) {
  console.log("the daemon's words");
  const { page, context } = await open(browser, daemon, { language: "zh-CN" });
  const shows = async (selector, what) => {
    await page.waitForFunction((selector) => /\p{Script=Han}/u.test(document.querySelector(selector)?.textContent ?? ""), selector, { timeout: 20_000 });
    const text = (await page.textContent(selector)).replace(/\s+/g, " ").trim();
    check(!/[a-z]{3,} [a-z]{2,} [a-z]{2,}/.test(text), `${what}: ${text}`);
  };

  await page.goto(`${daemon.address}/ui/#/settings/engine`);
  const keep = page.locator("#settings-engine .setting input[type=text] >> nth=0");
  await keep.fill("soon");
  await keep.press("Enter");
  await shows(".field-error", "a value that cannot be");

  const pull = new AbortController();
  const pulled = fetch(`${daemon.address}/api/pull`, { method: "POST", body: JSON.stringify({ model: NOBODY, insecure: true, stream: false }), signal: pull.signal }).catch(() => {});
  await page.goto(`${daemon.address}/ui/#/models/downloads`);
  await shows(".drow .trouble", "a registry that does not answer");
  pull.abort();
  await pulled;

  await page.goto(`${daemon.address}/ui/#/cache`);
  await page.fill(".remote input", `${daemon.home}/nowhere/at/all`);
  await page.click(".remote button:has-text('测试')");
  await shows(".remote .fails", "a place that cannot be used");
  await context.close();
}
