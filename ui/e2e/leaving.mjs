// A user who sends a message and navigates away at once: the message is sent, once, in its chat.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { answer } from "./answer.mjs";
import { check, open } from "./browser.mjs";
import { Replay } from "./replay.mjs";

const OUT = join(import.meta.dirname, "out");

export async function leaving(browser, daemon) {
  console.log("navigation while sending");
  mkdirSync(OUT, { recursive: true });
  const { page, context } = await open(browser, daemon);
  const chat = await daemon.app("POST", "/app/chats", { model: "pebble" });
  const messages = async () => (await daemon.app("GET", `/app/chats/${chat.id}/messages`)).messages.filter((one) => one.role === "user").map((one) => one.content);
  const away = ["#/chat", "#/settings", `#/chat/${chat.id}`];
  let asked = 0;
  for (const wait of [0, 0, 1, 5, 20, 60]) {
    await page.goto(`${daemon.address}/ui/#/chat/${chat.id}`);
    await page.waitForFunction(() => document.querySelector(".composer textarea")?.value === "");
    await page.fill(".composer textarea", `Question ${asked}`);
    await page.evaluate(
      async ([wait, where]) => {
        document.querySelector(".composer textarea").dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true, cancelable: true }));
        if (wait > 0) await new Promise((resume) => setTimeout(resume, wait));
        location.hash = where;
      },
      [wait, away[asked % 2]],
    );
    asked += 1;
    for (let tries = 0; (await messages()).length < asked && tries < 100; tries += 1) await new Promise((resume) => setTimeout(resume, 50));
    check((await messages()).length === asked, `question ${asked} is stored after ${wait} ms`);
    await page.goto(`${daemon.address}/ui/${away[2]}`);
    await page.waitForSelector("article.user");
    check((await page.inputValue(".composer textarea")) === "", "the message is not sent twice");
    for (let tries = 0; (await daemon.app("GET", `/app/chats/${chat.id}`)).answering && tries < 200; tries += 1) await new Promise((resume) => setTimeout(resume, 50));
  }
  check(new Set(await messages()).size === asked, "each message was sent once");

  let letGo = () => {};
  const gone = new Promise((resume) => (letGo = resume));
  await context.route("**/api/tags", async (route) => {
    await gone;
    await route.abort().catch(() => {});
  });
  await page.reload();
  await page.goto(`${daemon.address}/ui/#/chat`);
  await page.fill(".composer textarea", "Not sent yet");
  await page.press(".composer textarea", "Enter");
  await page.waitForSelector(".waiting:has-text('Not sent yet')");
  await page.screenshot({ path: join(OUT, "waiting.png") });
  await page.click(".waiting button");
  await page.waitForSelector(".waiting", { state: "detached" });
  check((await page.inputValue(".composer textarea")) === "Not sent yet", "a message that waits for a hanging server is shown, and can be cancelled");
  letGo();
  await context.unroute("**/api/tags");

  await context.route("**/api/tags", (route) => route.fulfill({ status: 500, body: '{"error":"boom"}' }));
  await page.reload();
  await page.goto(`${daemon.address}/ui/#/chat`);
  await page.fill(".composer textarea", "Refused message");
  await page.press(".composer textarea", "Enter");
  await page.waitForSelector(".refused");
  check((await page.inputValue(".composer textarea")) === "Refused message", "a refused message returns to the composer");
  await context.close();
  await leavingAnAnswer(browser, daemon);
}

/** Leaves a chat for another chat or another screen, at the moment at which its messages are added or grow. */
async function leavingAnAnswer(browser, daemon) {
  const replay = await Replay.before(daemon);
  try {
    const { page, noted, context } = await open(browser, replay);
    replay.perSecond = 1000;
    replay.pieces = answer(60_000);
    const [first, ...others] = await Promise.all(Array.from({ length: 9 }, () => daemon.app("POST", "/app/chats", { model: "pebble" })));
    for (const [at, chat] of others.entries()) {
      await page.evaluate((id) => (location.hash = `#/chat/${id}`), chat.id);
      await page.waitForSelector(".thread");
      await page.fill(".composer textarea", "Tell me all about it.");
      const where = at % 2 === 0 ? `#/chat/${first.id}` : "#/settings";
      // Page events do not wait for a frame, so the thread may leave the page before it has scrolled to its new end.
      await page.evaluate(
        ([where, selector]) =>
          new Promise((left) => {
            new MutationObserver((_, watch) => {
              if (document.querySelector(selector) === null) return;
              watch.disconnect();
              history.replaceState(null, "", where);
              window.dispatchEvent(new HashChangeEvent("hashchange"));
              left();
            }).observe(document.querySelector(".thread"), { childList: true, subtree: true, characterData: true });
            document.querySelector(".composer textarea").dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true, cancelable: true }));
          }),
        [where, at % 4 < 2 ? "article.user" : "article.assistant .prose .block"],
      );
      await page.waitForSelector("article.assistant, article.user", { state: "detached" });
    }
    check(noted.errors.length === 0, `leaving a chat with a growing answer causes no error: ${noted.errors.join(" | ").slice(0, 300)}`);
    await context.close();
  } finally {
    replay.close();
  }
}
