// What can be done with messages: read aloud, drag out, edit, delete, fork, and compare two models.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { faults, names } from "./axe.mjs";
import { check, open } from "./browser.mjs";
import { text } from "./words.mjs";

const OUT = join(import.meta.dirname, "out");
const TITLE = "Messages";

function sample() {
  const at = new Date().toISOString();
  const messages = [
    { id: "q1", role: "user", content: "What is a cairn?", created_at: at, state: "complete" },
    { id: "a1", parent: "q1", role: "assistant", content: "A cairn is a pile of stones. It marks **a path**.\n\n```js\nlet code;\n```", model: "pebble", created_at: at, state: "complete" },
    { id: "q2", parent: "a1", role: "user", content: "用中文说", created_at: at, state: "complete" },
    { id: "a2", parent: "q2", role: "assistant", content: "石堆是用来标记道路的。", model: "pebble", created_at: at, state: "complete" },
  ];
  return { format: "cairn-chats", version: 1, exported_at: at, chats: [{ id: "messages", title: TITLE, pinned: false, created_at: at, updated_at: at, head: "a2", messages }] };
}

/** Replaces the speech of the browser, which has no voices here. An utterance lasts until the test ends it. */
function fakeSpeech(voices) {
  const spoken = [];
  window.spoken = spoken;
  const engine = Object.assign(new EventTarget(), {
    getVoices: () => voices,
    speak: (utterance) => spoken.push(utterance),
    cancel: () => spoken.push("cancel"),
  });
  Object.defineProperty(window, "speechSynthesis", { value: engine });
  window.SpeechSynthesisUtterance = class extends EventTarget {
    constructor(words) {
      super();
      this.text = words;
    }
  };
}

async function speaks(browser, daemon, address) {
  const { page, context } = await open(browser, daemon);
  const label = text("chat.read_aloud");
  await page.goto(address);
  await page.waitForSelector("article.assistant.latest .msg-foot");
  const voices = await page.evaluate(() => speechSynthesis.getVoices().filter((voice) => voice.localService).length);
  check(((await page.locator(`button[aria-label='${label}']`).count()) > 0) === voices > 0, `answers can be read aloud only with a voice (${voices})`);
  const voice = (name, lang, localService) => ({ name, lang, localService, default: false });
  await page.addInitScript(fakeSpeech, [voice("Far", "en-US", false)]);
  await page.reload();
  await page.waitForSelector("article.assistant.latest .msg-foot");
  check((await page.locator(`button[aria-label='${label}']`).count()) === 0, "a voice of a server does not count");
  await context.close();

  const other = await open(browser, daemon);
  await other.page.addInitScript(fakeSpeech, [voice("Far", "en-US", false), voice("Near", "en-GB", true), voice("中文", "zh-CN", true)]);
  await other.page.goto(address);
  await other.page.reload();
  const read = other.page.locator(`button[aria-label='${label}']`);
  await read.nth(1).waitFor();
  await read.nth(0).click();
  const spoken = () => other.page.evaluate(() => window.spoken.map((one) => (one === "cancel" ? one : `${one.voice.name}: ${one.text}`)));
  check(JSON.stringify(await spoken()) === JSON.stringify(["Near: A cairn is a pile of stones. It marks a path."]), `the words of the answer are read by a voice of its language: ${JSON.stringify(await spoken())}`);
  const stop = other.page.locator(`button[aria-label='${text("chat.read_stop")}']`);
  check((await stop.getAttribute("aria-pressed")) === "true", "the button shows that it reads");
  await stop.click();
  check((await spoken()).at(-1) === "cancel" && (await stop.count()) === 0, "a click stops");
  await read.nth(1).click();
  check((await spoken()).at(-1) === "中文: 石堆是用来标记道路的。", "a Chinese answer has a Chinese voice");
  await other.page.keyboard.press("Escape");
  check((await spoken()).at(-1) === "cancel" && (await stop.count()) === 0, "Esc stops");
  await read.nth(1).click();
  await other.page.evaluate(() => window.spoken.at(-1).dispatchEvent(new Event("end")));
  await stop.waitFor({ state: "detached" });
  check(true, "the button is released at the end");
  await read.nth(0).click();
  await other.page.goto(`${daemon.address}/ui/#/chat`);
  await other.page.waitForFunction(() => window.spoken.at(-1) === "cancel");
  check(true, "reading ends with the chat");
  await other.page.goto(address);
  await read.nth(1).waitFor();
  await read.nth(1).click();
  await other.page.screenshot({ path: join(OUT, "read-aloud.png") });
  const bad = [...(await faults(other.page)), ...(await names(other.page))];
  check(bad.length === 0, `no accessibility fault ${bad.join(" | ")}`);
  await other.context.close();
}

async function dragsOut(browser, daemon, address) {
  const { page, context } = await open(browser, daemon);
  await page.goto(address);
  await page.waitForSelector(".code-block");
  /** What a drag of an element would drop, and the text behind its address. */
  const dropped = (selector) =>
    page.$eval(selector, async (element) => {
      const data = new DataTransfer();
      const begun = element.dispatchEvent(new DragEvent("dragstart", { dataTransfer: data, bubbles: true, cancelable: true }));
      const [, type, name, url] = /^([^:]*):([^:]*):(.*)$/.exec(data.getData("DownloadURL")) ?? [];
      return { begun, text: data.getData("text/plain"), type, name, blob: url?.startsWith("blob:") ?? false };
    });
  const code = await dropped(".code-block > header");
  check(code.begun && code.text === "let code;" && code.name === "code.js" && code.blob, `code can be dragged out as a file: ${JSON.stringify(code)}`);
  const exported = page.waitForResponse((response) => response.url().includes("/export?format=md"));
  await page.$eval(".title-button", (title) => title.dispatchEvent(new PointerEvent("pointerdown", { bubbles: true })));
  await (await exported).finished();
  await page.waitForFunction(() => document.querySelector(".title-button").dispatchEvent(new DragEvent("dragstart", { dataTransfer: new DataTransfer(), cancelable: true })));
  const chat = await dropped(".title-button");
  check(chat.begun && chat.name === `${TITLE}.md` && chat.type === "text/markdown" && chat.text.includes("A cairn is a pile of stones."), `a chat can be dragged out as Markdown: ${chat.name}`);
  const saved = page.waitForEvent("download");
  await page.click(`.code-block button[aria-label='${text("chat.code_save")}']`);
  check((await saved).suggestedFilename() === "code.js", "code can be saved by a button, too");
  check((await page.getAttribute(".composer textarea", "spellcheck")) === "true", "the composer checks spelling");
  await context.close();
}

/** Opens the menu of a message and chooses an item. */
async function choose(page, article, item) {
  await article.hover();
  await article.locator(`button[aria-label='${text("common.more")}']`).click();
  await page.click(`.menu .menu-item:has-text('${text(item)}')`);
}

/** Takes pictures of a state and returns its faults, with a light, a dark and a narrow window. */
async function looked(page, name) {
  const bad = [];
  for (const [theme, width] of [["light", 1440], ["dark", 1440], ["contrast", 1440], ["light", 400]]) {
    await page.setViewportSize({ width, height: 900 });
    await page.evaluate((theme) => (document.documentElement.dataset.theme = theme), theme);
    await page.waitForTimeout(200);
    await page.screenshot({ path: join(OUT, `${name}-${theme}-${width}.png`) });
    bad.push(...[...(await faults(page)), ...(await names(page))].map((one) => `${name} ${theme} ${width}: ${one}`));
  }
  await page.setViewportSize({ width: 1440, height: 900 });
  await page.evaluate(() => (document.documentElement.dataset.theme = "light"));
  return bad;
}

async function changes(browser, daemon, id) {
  const { page, context } = await open(browser, daemon);
  await page.goto(`${daemon.address}/ui/#/chat/${id}`);
  const last = page.locator("article.assistant.latest");
  await last.waitFor();
  const stored = () => daemon.app("GET", `/app/chats/${id}/messages`);

  await choose(page, last, "chat.edit");
  const box = last.locator(".edit-box textarea");
  check((await box.inputValue()) === "石堆是用来标记道路的。", "an answer is edited in its place");
  const bad = await looked(page, "edit-answer");
  await box.fill("A pile of stones.");
  await box.press("Enter");
  await box.press("End");
  check((await box.inputValue()).includes("\n"), "Enter adds a line to an answer");
  await box.fill("A pile of stones.");
  await last.locator(`.edit-box button:has-text('${text("common.save")}')`).click();
  await page.waitForSelector(`.msg-foot:has-text('${text("chat.edited")}')`);
  const { messages } = await stored();
  check(messages.at(-1).edited === true && messages.at(-1).content === "A pile of stones." && messages.at(-1).versions.length === 2, "the edited answer is a further version with a mark");
  bad.push(...(await looked(page, "edited")));
  await last.locator(`button[aria-label='${text("chat.version_before")}']`).click();
  await page.waitForSelector("article.latest:has-text('石堆')");
  check((await page.locator(`article.latest .msg-foot:has-text('${text("chat.edited")}')`).count()) === 0, "the version before is unchanged");

  await last.locator(`button[aria-label='${text("chat.side_by_side")}']`).click();
  await page.waitForSelector(".compared section >> nth=1");
  check((await page.locator(".compared section").allTextContents()).join().match(/石堆.*A pile of stones/s) !== null, "two versions are shown side by side");
  await page.locator(`.compared section >> nth=1`).locator(`button:has-text('${text("chat.keep_answer")}')`).click();
  await page.waitForSelector(".compared", { state: "detached" });
  check((await stored()).messages.at(-1).content === "A pile of stones.", "the kept version is the branch");

  const question = page.locator("article.user").last();
  await choose(page, question, "common.delete");
  const toast = page.locator(".toast", { hasText: text("chat.deleted_messages") });
  await toast.waitFor();
  check((await stored()).messages.length === 2, "a deleted message takes those that follow it with it");
  check((await page.locator("article").count()) === 2, "the thread ends before it");
  bad.push(...(await looked(page, "deleted-message")));
  await toast.locator(`button:has-text('${text("common.undo")}')`).click();
  await page.waitForSelector("article.latest:has-text('A pile of stones.')");
  const restored = (await stored()).messages;
  check(restored.length === 4 && restored.at(-1).edited && restored.at(-1).versions.length === 2, "undo restores all versions");

  await choose(page, page.locator("article.assistant").first(), "chat.fork");
  await page.waitForFunction((old) => !location.hash.endsWith(old), `/${id}`);
  await page.waitForSelector("article.assistant.latest:has-text('A cairn is')");
  check((await page.locator("article").count()) === 2 && (await page.textContent(".title-button")).includes(TITLE), "a fork has the messages up to one");
  check((await stored()).messages.length === 4, "the original is unchanged");
  const copy = page.url().split("/").at(-1);
  await daemon.app("DELETE", `/app/chats/${copy}?forever=true`);
  check(bad.length === 0, `no accessibility or layout fault ${bad.join(" | ")}`);
  await context.close();
}

async function compares(browser, daemon) {
  const alone = await open(browser, daemon);
  check((await alone.page.locator(`button[aria-label='${text("chat.compare_with")}']`).count()) === 0, "one model is not compared");
  await alone.context.close();
  await fetch(`${daemon.address}/api/copy`, { method: "POST", body: JSON.stringify({ source: "pebble", destination: "twin" }) });
  const { page, noted, context } = await open(browser, daemon);
  await page.evaluate(() => localStorage.setItem("cairn.model", "pebble:latest"));
  await page.reload();
  await page.waitForSelector(".model-picker:has-text('pebble')");
  await page.keyboard.press("Control+k");
  await page.fill(".palette input", text("shell.do_compare"));
  await page.keyboard.press("Enter");
  await page.click(".menu .menu-item:has-text('twin')");
  check((await page.textContent(".second-model")).includes("twin"), "the second model is named in the composer");
  const bad = await looked(page, "compare-choice");
  await page.fill(".composer textarea", "What is a cairn?");
  await page.keyboard.press("Enter");
  await page.waitForSelector(".compared section >> nth=1");
  const both = page.locator(".compared article.assistant");
  await page.waitForFunction(() => document.querySelectorAll(".compared .msg-foot").length === 2, null, { timeout: 60_000 });
  check((await both.count()) === 2 && (await page.locator(".compared > section > header").allTextContents()).join().match(/pebble.*twin/s) !== null, "one prompt has the answers of two models");
  const columns = () => page.locator(".compared > section").evaluateAll((all) => all.map((one) => one.getBoundingClientRect()).map(({ x, y, width }) => ({ x, y, width })));
  const [left, right] = await columns();
  check(left.y === right.y && left.x + left.width < right.x, "they are side by side");
  bad.push(...(await looked(page, "compared")));
  await page.setViewportSize({ width: 400, height: 900 });
  const [above, below] = await columns();
  check(above.x === below.x && above.y < below.y, "they are one above the other in a narrow window");
  await page.setViewportSize({ width: 1440, height: 900 });
  const id = page.url().split("/").at(-1);
  const chat = () => daemon.app("GET", `/app/chats/${id}`);
  check((await chat()).model.startsWith("pebble"), "the chat keeps its model until an answer is kept");
  await page.locator(".compared > section >> nth=1").locator(`button:has-text('${text("chat.keep_answer")}')`).click();
  await page.waitForSelector(".compared", { state: "detached" });
  const { messages } = await daemon.app("GET", `/app/chats/${id}/messages`);
  check((await chat()).model.startsWith("twin") && messages.at(-1).model.startsWith("twin") && messages.at(-1).versions.length === 2, "the kept answer continues, with its model");
  await page.click(`.second-model button`).catch(() => {});
  await page.reload();
  await page.waitForSelector("article.latest .msg-foot");
  check((await page.locator("article.assistant").count()) === 1, "one answer is shown after that");
  check(bad.length === 0, `no accessibility or layout fault ${bad.join(" | ")}`);
  check(noted.errors.length === 0, `no error ${noted.errors.join(" | ")}`);
  await context.close();
  await daemon.app("DELETE", `/app/chats/${id}?forever=true`);
  await fetch(`${daemon.address}/api/delete`, { method: "DELETE", body: JSON.stringify({ model: "twin" }) });
}

export async function messages(browser, daemon) {
  console.log("messages");
  mkdirSync(OUT, { recursive: true });
  await daemon.app("POST", "/app/chats/import", { export: sample() });
  const id = (await daemon.app("GET", "/app/chats")).chats.find((one) => one.title === TITLE).id;
  await speaks(browser, daemon, `${daemon.address}/ui/#/chat/${id}`);
  await dragsOut(browser, daemon, `${daemon.address}/ui/#/chat/${id}`);
  await changes(browser, daemon, id);
  await compares(browser, daemon);
}
