// What can be done with an answer: read aloud.
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

export async function messages(browser, daemon) {
  console.log("messages");
  mkdirSync(OUT, { recursive: true });
  await daemon.app("POST", "/app/chats/import", { export: sample() });
  const id = (await daemon.app("GET", "/app/chats")).chats.find((one) => one.title === TITLE).id;
  await speaks(browser, daemon, `${daemon.address}/ui/#/chat/${id}`);
  await dragsOut(browser, daemon, `${daemon.address}/ui/#/chat/${id}`);
}
