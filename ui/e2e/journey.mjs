// A chat with Pebble: ask, read, regenerate, edit, stop, pin, search, delete, undo, restart.
import { check, open } from "./browser.mjs";
import { text } from "./words.mjs";

const STREAMED = "article.assistant[aria-busy='false'] .msg-foot";

async function ask(page, question) {
  const before = await page.locator("article.assistant").count();
  await page.fill(".composer textarea", question);
  await page.keyboard.press("Enter");
  await page.waitForFunction((count) => document.querySelectorAll("article.assistant").length > count, before);
  await page.waitForFunction(() => document.querySelector(".send.stop") === null && document.querySelectorAll("article.assistant[aria-busy='true']").length === 0, undefined, { timeout: 60_000 });
}

export async function journey(browser, daemon) {
  console.log("a chat with Pebble");
  let { page, noted, context } = await open(browser, daemon);
  check(!(await page.evaluate(() => location.hash)).includes("t="), "the ticket is removed from the address");
  await page.waitForFunction(() => document.querySelector(".model-picker")?.textContent?.includes("pebble"));
  check(true, "Pebble is selected by default");

  await ask(page, "How do I pull a model?");
  await page.waitForSelector(STREAMED);
  const answer = await page.textContent("article.assistant .prose");
  check(answer.trim().length > 20, `an answer arrived: ${answer.trim().slice(0, 60)}`);
  check(/#\/chat\/.+/.test(await page.evaluate(() => location.hash)), "the chat has an address");
  check((await page.textContent(".msg-foot")).includes(text("chat.speed")), "the answer's footer shows the speed");
  await ask(page, "And if my laptop goes to sleep halfway?");
  check((await page.locator("article.message").count()) === 4, "four messages");
  check((await page.locator(".chat-item[aria-current]").count()) === 1, "the chat is in the list");

  console.log("versions");
  await page.locator("article.assistant").last().hover();
  await page.locator("article.assistant").last().locator("[data-regenerate]").click();
  await page.waitForFunction(() => document.querySelector("article.assistant:last-of-type .version-switch, .slot:last-of-type .version-switch")?.textContent?.includes("2 / 2"), undefined, { timeout: 30_000 });
  check(true, "regenerate makes a second version");
  await page.locator(".version-switch button").first().click();
  await page.waitForFunction(() => [...document.querySelectorAll(".version-switch")].some((one) => one.textContent?.includes("1 / 2")));
  check(true, "the arrows switch versions");
  await page.locator("article.user").first().hover();
  await page.locator("article.user [data-edit]").first().click();
  await page.fill(".edit-box textarea", "Who are you?");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.querySelectorAll("article.message").length === 2 && document.querySelector(".send.stop") === null, undefined, { timeout: 30_000 });
  check((await page.textContent("article.user .bubble")) === "Who are you?", "an edited question starts a branch");
  check((await page.textContent("article.user .version-switch")).includes("2 / 2"), "the first version is kept");

  console.log("the list");
  const title = (await page.textContent(".title-button")).trim();
  check(title.length > 0, `the chat has a title: ${title}`);
  await page.hover(".chat-row");
  await page.click(".chat-row .chat-more");
  await page.locator(".menu-item").getByText(text("chat.pin"), { exact: true }).click();
  await page.waitForSelector(`h2:has-text('${text("chat.group_pinned")}')`);
  check(true, "the chat can be pinned");
  await page.fill(".sidebar input[type=search]", "laptop");
  await page.waitForSelector(".hit mark");
  check(true, "search finds words of the chat");
  await page.click(".hit");
  await page.fill(".sidebar input[type=search]", "");
  await page.waitForSelector(".chat-row");
  await page.hover(".chat-row");
  await page.click(".chat-row .chat-more");
  await page.click(".menu-item.danger");
  await page.click(`.toast button:has-text('${text("common.undo")}')`);
  await page.waitForSelector(".chat-row");
  check(true, "deleting can be undone");

  console.log("stop");
  await page.keyboard.press("Alt+n");
  await page.waitForSelector(".new-chat");
  await page.fill(".composer textarea", "Tell me everything about the cache, the tiers, pulling and quantisation, in many sentences.");
  await page.keyboard.press("Enter");
  await page.waitForSelector("article.assistant", { timeout: 30_000 });
  await page.keyboard.press("Escape");
  await page.waitForFunction(() => document.querySelector(".send.stop") === null, undefined, { timeout: 30_000 });
  check(true, "Escape ends an answer");

  console.log("palette and parameters");
  await page.keyboard.press("Control+k");
  await page.fill(".palette input", text("shell.hardware"));
  await page.waitForSelector(".palette .menu-item");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => location.hash.startsWith("#/hardware"));
  await page.keyboard.press("Control+1");
  await page.waitForSelector(".composer textarea");
  check(true, "the palette opens screens, and Ctrl+1 returns to the chat");

  console.log("a restart");
  await page.goto(`${daemon.address}/ui/#/chat`);
  const chats = (await daemon.app("GET", "/app/chats")).pinned;
  check(chats.length === 1, "one chat is pinned");
  await daemon.kill();
  await daemon.run();
  await context.close();
  ({ page, noted, context } = await open(browser, daemon));
  await page.goto(`${daemon.address}/ui/#/chat/${chats[0].id}`);
  await page.waitForSelector("article.assistant .prose");
  check((await page.textContent("article.user .bubble")).length > 0, "the chat exists after a kill");
  await ask(page, "Can I use it offline?");
  check((await page.locator("article.assistant").count()) >= 2, "the chat continues");
  const badge = await page.locator(".resume").count();
  console.log(`  resume badges shown: ${badge}`);
  check(noted.foreign.length === 0, "no other host was contacted");
  check(noted.errors.length === 0, `no error in the console ${noted.errors.join(" | ").slice(0, 400)}`);
  await context.close();
}
