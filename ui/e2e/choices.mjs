// Settings of the interface: stored by the daemon, applied in all windows, and applied at the first paint.
import { check, choose, open } from "./browser.mjs";
import { text } from "./words.mjs";

const looks = (page) => page.evaluate(() => ({ theme: document.documentElement.dataset.theme, language: document.documentElement.lang }));

export async function choices(browser, daemon) {
  console.log("choices");
  const setting = async (key) => (await daemon.app("GET", "/app/settings")).settings.find((one) => one.key === key).value;
  const { page, noted, context } = await open(browser, daemon);
  check((await looks(page)).theme === "light", "the page follows the settings");

  await page.goto(`${daemon.address}/ui/#/settings/appearance`);
  await page.click(`button[role=radio]:has-text('${text("settings.theme_dark")}')`);
  check((await looks(page)).theme === "dark", "a theme applies at once");
  await page.waitForFunction(() => JSON.parse(localStorage.getItem("cairn.ui")).unsent.theme === undefined);
  check((await setting("ui.theme")) === "dark", "the setting is stored");
  await page.focus("button[role=radio][aria-checked=true]");
  await page.keyboard.press("ArrowRight");
  await page.waitForFunction(() => document.documentElement.dataset.theme === "contrast");
  check(true, "a theme can be chosen by keyboard");
  await page.click(`button[role=radio]:has-text('${text("settings.theme_dark")}')`);
  const size = page.locator(`input[type=range][aria-label='${text("settings.text_size")}']`);
  await size.focus();
  await page.keyboard.press("ArrowRight");
  await page.waitForFunction(() => document.documentElement.style.fontSize === "105%");
  check(true, "the text size changes");
  await page.selectOption(`select[aria-label='${text("settings.send")}']`, "Ctrl+Enter");
  await page.goto(`${daemon.address}/ui/#/chat`);
  await page.fill(".composer textarea", "One");
  await page.keyboard.press("Enter");
  check((await page.inputValue(".composer textarea")) === "One\n", "Enter adds a new line if Ctrl+Enter sends");
  await page.keyboard.press("Control+Enter");
  await page.waitForSelector("article.assistant");
  check(true, "Ctrl+Enter sends");

  await page.goto(`${daemon.address}/ui/#/settings/shortcuts`);
  const keys = page.locator(`button.keys[aria-label^='${text("shell.do_new_chat")}']`);
  await keys.click();
  await page.keyboard.press("q");
  await page.waitForSelector(`.field-error:has-text('${text("settings.keys_plain")}')`);
  await page.keyboard.press("Control+k");
  await page.waitForSelector(`.field-error:has-text('${text("shell.do_palette")}')`);
  check(true, "reserved and used keys are refused");
  await page.keyboard.press("Control+e");
  await page.waitForSelector(`button.keys[aria-label^='${text("shell.do_new_chat")}'][aria-label*='Ctrl+E']`);
  await page.keyboard.press("Control+e");
  await page.waitForSelector(".new-chat");
  check(true, "a shortcut can be changed");
  check((await setting("ui.shortcuts")) === "new_chat=mod+e", "the setting is stored");

  // A window that was opened elsewhere, and one whose scripts have not loaded yet.
  await choose(daemon, { theme: "dark", language: "zh-CN" });
  await page.reload();
  await page.waitForFunction(() => document.documentElement.lang === "zh-CN");
  check((await looks(page)).theme === "dark", "changes made elsewhere apply");
  await page.route("**/assets/*.js", (route) => route.abort());
  await page.reload({ waitUntil: "commit" });
  await page.waitForSelector("#app", { state: "attached" });
  const first = await looks(page);
  check(first.theme === "dark" && first.language === "zh-CN", "the first paint has the theme and the language");
  await page.unroute("**/assets/*.js");
  await page.reload();
  await page.waitForSelector(".composer textarea");

  // Without a daemon, a change applies to this window; it is sent when the daemon is back.
  await daemon.end();
  await page.keyboard.press("Control+k");
  await page.fill(".palette input", "语言");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.documentElement.lang === "en");
  check(true, "without a server a change applies to this window");
  await daemon.run();
  // By way of another page: two addresses of one page cause no load, and a reload right after would abort the sign-in.
  await page.goto("about:blank");
  await page.goto(daemon.ticket());
  await page.waitForSelector(".composer textarea");
  for (let tries = 0; (await setting("ui.language")) !== "en" && tries < 50; tries += 1) await page.waitForTimeout(100);
  check((await setting("ui.language")) === "en", "the change is sent to the next server");
  const errors = noted.errors.filter((one) => !/ERR_|Failed to load|Failed to fetch|40\d/.test(one));
  check(errors.length === 0, `no error in the console ${errors.join(" | ").slice(0, 300)}`);
  await context.close();
}
