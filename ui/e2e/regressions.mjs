// Regression tests for faults found in review.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { check, open } from "./browser.mjs";
import { text } from "./words.mjs";

const OUT = join(import.meta.dirname, "out");

/** Environment of a daemon that reaches no registry: its proxy refuses connections. */
export const NO_REGISTRY = { HTTPS_PROXY: "http://127.0.0.1:9", HTTP_PROXY: "http://127.0.0.1:9", NO_PROXY: "" };

export async function firstDownload(browser, daemon) {
  console.log("firstDownload");
  mkdirSync(OUT, { recursive: true });
  const { page, context } = await open(browser, daemon, { ready: ".welcome .choice" });
  await page.click(`.welcome .choice:has-text('${text("models.role_small")}')`);
  await page.click(`.welcome button:has-text('${text("models.get")}')`);
  await page.waitForSelector(".composer textarea");
  const notice = page.locator(".download-failed");
  await notice.waitFor({ timeout: 30_000 });
  check(/qwen3:0\.6b/.test(await notice.textContent()), "a failed first download is reported in the chat");
  check((await notice.textContent()).includes(text("errors.registry_unreachable")), "the report has the cause");
  await page.screenshot({ path: join(OUT, "first-download-failed.png") });
  await page.setViewportSize({ width: 480, height: 800 });
  await page.screenshot({ path: join(OUT, "first-download-failed-480.png") });
  await notice.locator(`button:has-text('${text("common.retry")}')`).click();
  await notice.waitFor({ state: "detached" });
  await notice.waitFor({ timeout: 30_000 });
  check(true, "the download can be retried there");
  await notice.locator(`button[aria-label='${text("common.close")}']`).click();
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
  await page.waitForSelector(`h1:has-text('${text("settings.title")}')`);
  await page.screenshot({ path: join(OUT, "settings-480.png") });

  const lists = [];
  page.on("request", (request) => request.url().endsWith("/app/keys") && lists.push(request.url()));
  await page.goto(`${daemon.address}/ui/#/server`);
  await page.waitForSelector(`section[aria-label='${text("server.keys")}'] .empty`);
  // An effect that depends on the list runs before the next frame, so its request would precede this one.
  await page.evaluate(() => new Promise(requestAnimationFrame));
  await page.evaluate(() => fetch("/api/version"));
  check(lists.length === 1, `the Server screen requests the API keys once: ${lists.length} requests`);

  for (const width of [1440, 480]) {
    await page.setViewportSize({ width, height: 800 });
    await page.goto(`${daemon.address}/ui/#/chat`);
    await page.waitForSelector(".composer textarea");
    await page.setInputFiles(".composer input[type=file]", { name: "doc.pdf", mimeType: "application/pdf", buffer: Buffer.from([0, 1, 2]) });
    const toast = page.locator(".toast").last();
    await toast.waitFor();
    const report = await toast.textContent();
    check(report.includes("doc.pdf") && report.includes(text("errors.document_unknown")), `a refused attachment is reported: ${report}`);
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
  const room = async () => (await page.getAttribute(".ctx", "aria-label")).match(/\d[\d,]*/g);
  check((await room()).includes("1,024"), `the context meter shows the configured context before the model is loaded: ${await room()}`);

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
  check((await warning.locator(`button:has-text('${text("chat.too_long_larger")}')`).count()) === 1, "a larger context is offered");
  await warning.locator(`button:has-text('${text("chat.too_long_send")}')`).click();
  const notice = page.locator("article.assistant .notice");
  await notice.waitFor({ timeout: 60_000 });
  const left = await notice.textContent();
  check(left.includes(text("chat.truncated_message_too_long")), `the notice names the dropped tokens: ${left}`);
  await context.close();
}
