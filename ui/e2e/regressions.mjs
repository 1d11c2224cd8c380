// Regression tests for faults found in review.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { check, open } from "./browser.mjs";

const OUT = join(import.meta.dirname, "out");

/** Environment of a daemon that reaches no registry: its proxy refuses connections. */
export const NO_REGISTRY = { HTTPS_PROXY: "http://127.0.0.1:9", HTTP_PROXY: "http://127.0.0.1:9", NO_PROXY: "" };

export async function firstDownload(browser, daemon) {
  console.log("firstDownload");
  mkdirSync(OUT, { recursive: true });
  const { page, context } = await open(browser, daemon, { ready: ".welcome .choice" });
  await page.click(".welcome .choice:has-text('Small')");
  await page.click(".welcome button:has-text('Download')");
  await page.waitForSelector(".composer textarea");
  const notice = page.locator(".download-failed");
  await notice.waitFor({ timeout: 30_000 });
  check(/qwen3:0\.6b/.test(await notice.textContent()), "a failed first download is reported in the chat");
  check(/Can't reach the registry/.test(await notice.textContent()), "the report has the cause");
  await page.screenshot({ path: join(OUT, "first-download-failed.png") });
  await page.setViewportSize({ width: 480, height: 800 });
  await page.screenshot({ path: join(OUT, "first-download-failed-480.png") });
  await notice.locator("button:has-text('Retry')").click();
  await notice.waitFor({ state: "detached" });
  await notice.waitFor({ timeout: 30_000 });
  check(true, "the download can be retried there");
  await notice.locator("button[aria-label='Close']").click();
  check((await notice.count()) === 0, "the report can be closed");
  await context.close();
}

const overlap = (a, b) => a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;

export async function regressions(browser, daemon) {
  console.log("regressions");
  mkdirSync(OUT, { recursive: true });
  const { page, context } = await open(browser, daemon, { width: 480, height: 800 });
  const settings = page.locator("nav a[href='#/settings']");
  check(await settings.isVisible(), "Settings can be reached in a window of 480 px");
  const rail = await page.locator(".app-rail > *:visible").evaluateAll((items) => items.map((item) => item.getBoundingClientRect()).every((box) => box.left >= 0 && box.right <= innerWidth));
  check(rail, "all entries of the rail are inside of the window");
  await settings.click();
  await page.waitForSelector("h1:has-text('Settings')");
  await page.screenshot({ path: join(OUT, "settings-480.png") });

  for (const width of [1440, 480]) {
    await page.setViewportSize({ width, height: 800 });
    await page.goto(`${daemon.address}/ui/#/chat`);
    await page.waitForSelector(".composer textarea");
    await page.setInputFiles(".composer input[type=file]", { name: "doc.pdf", mimeType: "application/pdf", buffer: Buffer.from([0, 1, 2]) });
    const toast = page.locator(".toast").last();
    await toast.waitFor();
    const text = await toast.textContent();
    check(/Can't attach doc\.pdf/.test(text), `a refused attachment is reported: ${text}`);
    const [box, send] = [await toast.boundingBox(), await page.locator("button.send").boundingBox()];
    check(!overlap(box, send), `a toast does not cover Send at ${width} px`);
    await page.screenshot({ path: join(OUT, `toast-${width}.png`) });
  }
  await page.mouse.move(0, 0);
  await page.locator(".toast").first().waitFor({ state: "detached", timeout: 20_000 });
  check(true, "an error toast closes after a while");

  // Pebble is not loaded yet; its own maximum is larger than the configured context.
  await daemon.app("PATCH", "/app/settings", { "engine.context": 1024 });
  await page.setViewportSize({ width: 1440, height: 900 });
  await page.reload();
  await page.waitForSelector(".ctx");
  const room = async () => /of ([\d,]+) tokens/.exec(await page.getAttribute(".ctx", "aria-label"))[1];
  check((await room()) === "1,024", `the context meter shows the configured context before the model is loaded: ${await room()}`);

  await page.fill(".composer textarea", "The cairn stands where two paths meet. ".repeat(100));
  await page.keyboard.press("Enter");
  const warning = page.locator(".too-long");
  await warning.waitFor({ timeout: 20_000 });
  check(/1,024/.test(await warning.textContent()), `a message that is too long is reported before it is sent: ${await warning.textContent()}`);
  check((await page.locator("article").count()) === 0, "the long message is not sent");
  await page.screenshot({ path: join(OUT, "too-long.png") });
  await page.setViewportSize({ width: 480, height: 800 });
  await page.screenshot({ path: join(OUT, "too-long-480.png") });
  await page.setViewportSize({ width: 1440, height: 900 });
  check((await warning.locator("button:has-text('context')").count()) === 1, "a larger context is offered");
  await warning.locator("button:has-text('Send anyway')").click();
  const notice = page.locator("article.assistant .notice");
  await notice.waitFor({ timeout: 60_000 });
  const text = await notice.textContent();
  check(/message is longer than the context/.test(text) && !/ 0 older/.test(text), `the notice names the dropped tokens: ${text}`);
  await context.close();
}
