// Chromium, as it is installed; a page of it that notes all that goes wrong and all that it asks for.
import { chromium } from "playwright-core";

const PATHS = [process.env.CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

export async function launch() {
  const { existsSync } = await import("node:fs");
  const executablePath = PATHS.find((path) => path && existsSync(path));
  if (!executablePath) throw new Error("no Chromium: install it (apt-get install chromium) or name it in CHROMIUM");
  return chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"] });
}

/** A page in its own context, signed in. */
export async function open(browser, daemon, { width = 1440, height = 900, theme = "light", language = "en", ready = ".composer textarea" } = {}) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: theme === "dark" ? "dark" : "light", locale: language, permissions: ["clipboard-read", "clipboard-write"] });
  await context.addInitScript(
    ([theme, language]) => {
      localStorage.setItem("cairn.theme", theme);
      localStorage.setItem("cairn.language", language);
    },
    [theme, language],
  );
  const page = await context.newPage();
  const noted = { errors: [], foreign: [], dialogs: [] };
  page.on("console", (message) => message.type() === "error" && noted.errors.push(message.text()));
  page.on("pageerror", (error) => noted.errors.push(String(error)));
  page.on("dialog", (dialog) => {
    noted.dialogs.push(dialog.message());
    void dialog.dismiss();
  });
  page.on("request", (request) => {
    if (!request.url().startsWith(daemon.address) && !/^(data|blob):/.test(request.url())) noted.foreign.push(request.url());
  });
  await page.goto(daemon.ticket());
  await page.waitForSelector(ready);
  return { page, noted, context };
}

export function check(condition, what) {
  if (!condition) throw new Error(what);
  console.log(`  ok: ${what}`);
}
