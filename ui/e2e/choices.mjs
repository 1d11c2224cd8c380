// Settings of the interface: the daemon has them, all windows follow, and the first paint knows what was chosen last.
import { check, choose, open } from "./browser.mjs";

const looks = (page) => page.evaluate(() => ({ theme: document.documentElement.dataset.theme, language: document.documentElement.lang }));

export async function choices(browser, daemon) {
  console.log("choices");
  const setting = async (key) => (await daemon.app("GET", "/app/settings")).settings.find((one) => one.key === key).value;
  const { page, noted, context } = await open(browser, daemon);
  check((await looks(page)).theme === "light", "the page looks as the settings say");

  await page.goto(`${daemon.address}/ui/#/settings/appearance`);
  await page.click("button[role=radio]:has-text('Dark')");
  check((await looks(page)).theme === "dark", "a theme holds at once");
  await page.waitForFunction(() => JSON.parse(localStorage.getItem("cairn.ui")).unsent.theme === undefined);
  check((await setting("ui.theme")) === "dark", "and is written");
  await page.focus("button[role=radio][aria-checked=true]");
  await page.keyboard.press("ArrowRight");
  await page.waitForFunction(() => document.documentElement.dataset.theme === "contrast");
  check(true, "by keyboard too");
  await page.click("button[role=radio]:has-text('Dark')");
  const size = page.locator("input[type=range][aria-label='Text size']");
  await size.focus();
  await page.keyboard.press("ArrowRight");
  await page.waitForFunction(() => document.documentElement.style.fontSize === "105%");
  check(true, "text grows");
  await page.selectOption("select[aria-label='A message is sent by']", "Ctrl+Enter");
  await page.goto(`${daemon.address}/ui/#/chat`);
  await page.fill(".composer textarea", "One");
  await page.keyboard.press("Enter");
  check((await page.inputValue(".composer textarea")) === "One\n", "Enter begins a new line where Ctrl+Enter sends");
  await page.keyboard.press("Control+Enter");
  await page.waitForSelector("article.assistant");
  check(true, "and Ctrl+Enter sends");

  await page.goto(`${daemon.address}/ui/#/settings/shortcuts`);
  const keys = page.locator("button.keys[aria-label^='New chat:']");
  await keys.click();
  await page.keyboard.press("q");
  await page.waitForSelector(".field-error:has-text('for typing')");
  await page.keyboard.press("Control+k");
  await page.waitForSelector(".field-error:has-text('Commands')");
  check(true, "keys that are for typing, or for something else, are refused");
  await page.keyboard.press("Control+e");
  await page.waitForFunction(() => document.querySelector("button.keys[aria-label^='New chat: Ctrl+E']"));
  await page.keyboard.press("Control+e");
  await page.waitForSelector(".new-chat");
  check(true, "a shortcut can be another");
  check((await setting("ui.shortcuts")) === "new_chat=mod+e", "and is written");

  // A window that was opened elsewhere, and one whose scripts have not come yet.
  await choose(daemon, { theme: "dark", language: "zh-CN" });
  await page.reload();
  await page.waitForFunction(() => document.documentElement.lang === "zh-CN");
  check((await looks(page)).theme === "dark", "what is set elsewhere is followed");
  await page.route("**/assets/*.js", (route) => route.abort());
  await page.reload({ waitUntil: "commit" });
  await page.waitForSelector("#app", { state: "attached" });
  const first = await looks(page);
  check(first.theme === "dark" && first.language === "zh-CN", "the first paint knows both");
  await page.unroute("**/assets/*.js");
  await page.reload();
  await page.waitForSelector(".composer textarea");

  // Nobody there: what is chosen holds, and is told when somebody is.
  await daemon.end();
  await page.keyboard.press("Control+k");
  await page.fill(".palette input", "语言");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.documentElement.lang === "en");
  check(true, "without a server a choice holds in this window");
  await daemon.run();
  // From elsewhere: between two addresses of one page there is no load, and a reload right after would cut off the sign-in.
  await page.goto("about:blank");
  await page.goto(daemon.ticket());
  await page.waitForSelector(".composer textarea");
  for (let tries = 0; (await setting("ui.language")) !== "en" && tries < 50; tries += 1) await page.waitForTimeout(100);
  check((await setting("ui.language")) === "en", "and is told to the next one");
  const errors = noted.errors.filter((one) => !/ERR_|Failed to load|Failed to fetch|40\d/.test(one));
  check(errors.length === 0, `no error in the console ${errors.join(" | ").slice(0, 300)}`);
  await context.close();
}
