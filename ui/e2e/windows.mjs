// Visible windows side by side: a browser allows few connections to a server, and no window may wait for another.
import { check, open } from "./browser.mjs";

/** Number of open windows. */
const WINDOWS = 5;

export async function windows(browser, daemon) {
  console.log("windows beside each other");
  const { page, context } = await open(browser, daemon);
  const pages = [page];
  while (pages.length < WINDOWS) {
    const more = await context.newPage();
    await more.goto(daemon.ticket());
    await more.waitForSelector(".composer textarea", { timeout: 10_000 });
    pages.push(more);
  }
  check(true, `${WINDOWS} windows show chats`);
  for (const one of pages) await one.goto(`${daemon.address}/ui/#/cache`);
  for (const one of pages) await one.goto(`${daemon.address}/ui/#/chat`);
  for (const [at, one] of pages.entries()) {
    await one.fill(".composer textarea", `Hello from window ${at + 1}`);
    await one.press(".composer textarea", "Enter");
    await one.waitForSelector("article.assistant .msg-foot", { timeout: 15_000 });
  }
  check(true, "each window has its answer");
  await context.close();
}
