// Whoever asks and is elsewhere at once: the question is asked, once, where it was written.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { check, open } from "./browser.mjs";

const OUT = join(import.meta.dirname, "out");

export async function leaving(browser, daemon) {
  console.log("asking and leaving");
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
    check((await messages()).length === asked, `question ${asked} is there after ${wait} ms`);
    await page.goto(`${daemon.address}/ui/${away[2]}`);
    await page.waitForSelector("article.user");
    check((await page.inputValue(".composer textarea")) === "", "and is not written twice");
    for (let tries = 0; (await daemon.app("GET", `/app/chats/${chat.id}`)).answering && tries < 200; tries += 1) await new Promise((resume) => setTimeout(resume, 50));
  }
  check(new Set(await messages()).size === asked, "each was asked once");

  let letGo = () => {};
  const gone = new Promise((resume) => (letGo = resume));
  await context.route("**/api/tags", async (route) => {
    await gone;
    await route.abort().catch(() => {});
  });
  await page.reload();
  await page.goto(`${daemon.address}/ui/#/chat`);
  await page.fill(".composer textarea", "Nobody hears this yet");
  await page.press(".composer textarea", "Enter");
  await page.waitForSelector(".waiting:has-text('Nobody hears this yet')");
  await page.screenshot({ path: join(OUT, "waiting.png") });
  await page.click(".waiting button");
  await page.waitForSelector(".waiting", { state: "detached" });
  check((await page.inputValue(".composer textarea")) === "Nobody hears this yet", "what waits for a server that hangs is said to, and can be taken back");
  letGo();
  await context.unroute("**/api/tags");

  await context.route("**/api/tags", (route) => route.fulfill({ status: 500, body: '{"error":"boom"}' }));
  await page.reload();
  await page.goto(`${daemon.address}/ui/#/chat`);
  await page.fill(".composer textarea", "Nobody answers");
  await page.press(".composer textarea", "Enter");
  await page.waitForSelector(".refused");
  check((await page.inputValue(".composer textarea")) === "Nobody answers", "what is refused comes back");
  await context.close();
}
