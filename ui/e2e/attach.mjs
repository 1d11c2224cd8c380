// Attachments by the button, by drop and by paste; images are refused for models without vision. And the import of chats of the
// Ollama app.
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { check, open } from "./browser.mjs";
import { text } from "./words.mjs";

const PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==";

/** Drops or pastes files into the composer. */
function give(page, how) {
  return page.evaluate(
    ([how, png]) => {
      const bytes = Uint8Array.from(atob(png), (sign) => sign.charCodeAt(0));
      const data = new DataTransfer();
      data.items.add(new File([bytes], `${how}.png`, { type: "image/png" }));
      const target = document.querySelector(how === "drop" ? ".composer" : ".composer textarea");
      const event = how === "drop" ? new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }) : new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true });
      target.dispatchEvent(event);
    },
    [how, PNG],
  );
}

/** A database like that of the Ollama app; `undefined` without a program to write one. */
function ollamaChats(folder) {
  const path = join(folder, "db.sqlite");
  const program = `
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
db.executescript("""
CREATE TABLE chats (id TEXT PRIMARY KEY, title TEXT, created_at TIMESTAMP);
CREATE TABLE messages (id INTEGER PRIMARY KEY, chat_id TEXT, role TEXT, content TEXT, thinking TEXT, model_name TEXT, created_at TIMESTAMP, thinking_time_start TIMESTAMP, thinking_time_end TIMESTAMP);
INSERT INTO chats VALUES ('b', 'Bread', '2025-08-01 10:00:00'), ('c', 'Cheese', '2025-08-02 10:00:00');
INSERT INTO messages VALUES (1, 'b', 'user', 'How long?', '', NULL, '2025-08-01 10:00:01', NULL, NULL), (2, 'b', 'assistant', 'An hour.', '', 'x', '2025-08-01 10:00:02', NULL, NULL), (3, 'c', 'user', 'Which?', '', NULL, '2025-08-02 10:00:01', NULL, NULL);
""")
db.close()`;
  return spawnSync("python3", ["-c", program, path]).status === 0 ? path : undefined;
}

export async function attach(browser, daemon) {
  console.log("attachments");
  const { page, noted, context } = await open(browser, daemon);
  await page.waitForFunction(() => document.querySelector(".model-picker")?.textContent?.includes("pebble"));
  await page.click(".composer [aria-haspopup=menu]");
  await page.waitForSelector(".menu");
  const items = await page.$$eval(".menu .menu-item", (all) => all.map((one) => ({ text: one.textContent.trim(), off: one.disabled, why: one.title })));
  check(items.length === 3 && !items[0].off, "texts can be attached");
  check(items[1].off && items[1].why.includes("pebble") && items[1].text.length > 0, `images cannot, with the reason: ${items[1].why}`);
  check(!items[2].off && items[2].text === text("chat.attach_collection"), "large documents have a collection");
  await page.keyboard.press("Escape");
  await page.setInputFiles(".composer input[type=file]", { name: "notes.txt", mimeType: "text/plain", buffer: Buffer.from("granite") });
  await page.waitForSelector(".attachment:has-text('notes.txt')");
  await give(page, "drop");
  await page.waitForSelector(".attachment.unseen:has-text('drop.png')");
  await give(page, "paste");
  await page.waitForSelector(".attachment.unseen:has-text('paste.png')");
  check((await page.getAttribute(".attachment.unseen", "title")).includes("pebble"), "an image for a model without vision is grey, with the reason");
  check(!(await page.isDisabled(".send")), "the text is sent anyway");
  await page.click(".send");
  await page.waitForSelector("article.assistant[aria-busy='false'] .msg-foot", { timeout: 60_000 });
  check((await page.locator(".composer .attachment.unseen").count()) === 2, "images stay in the composer");
  check(await page.isDisabled(".send"), "images alone cannot be sent");
  check((await page.getAttribute(".send", "title")).includes("pebble"), "the Send button has the reason");
  await page.click(".attachment.unseen button >> nth=0");
  check((await page.locator(".composer .attachment.unseen").count()) === 1, "attachments can be removed");

  console.log("chats from Ollama");
  const menu = async () => {
    await page.click(".sidebar-head [aria-haspopup=menu]");
    await page.click(".menu-item:has-text('Ollama')");
    await page.waitForSelector("dialog[open] input");
  };
  await menu();
  const field = page.locator("dialog input");
  await field.fill(join(daemon.home, "none.sqlite"));
  await page.keyboard.press("Enter");
  await page.waitForSelector("dialog .field-error");
  check(true, "a missing file is reported at its field");
  const path = ollamaChats(daemon.home);
  if (path === undefined) console.log("  skipped: no python3 to write a database with");
  else {
    await field.fill(path);
    await page.keyboard.press("Enter");
    await page.waitForSelector("dialog [role=status]");
    check((await page.textContent("dialog [role=status]")).includes("2"), "the result of the import is shown");
    await page.click("dialog .dialog-f button");
    await page.waitForSelector(".chat-item:has-text('Bread')");
    await menu();
    await field.fill(path);
    await page.keyboard.press("Enter");
    await page.waitForSelector(`dialog [role=status]:has-text('${text("chat.count_present").replace(".", "")}')`);
    check(true, "a second import adds nothing");
  }
  const errors = noted.errors.filter((one) => !/40\d/.test(one));
  check(errors.length === 0, `no error in the console ${errors.join(" | ").slice(0, 300)}`);
  await context.close();
}
