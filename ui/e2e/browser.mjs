// The installed Chromium, and pages that record errors and requests.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { chromium } from "playwright-core";
import { spoken } from "./words.mjs";

const PATHS = [process.env.CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

export async function launch() {
  const executablePath = PATHS.find((path) => path && existsSync(path));
  if (!executablePath) throw new Error("no Chromium: install it (apt-get install chromium) or name it in CHROMIUM");
  return chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--host-resolver-rules=MAP evil.example 127.0.0.1"] });
}

/** A page in its own context, signed in. */
export async function open(browser, daemon, { width = 1440, height = 900, theme = "light", language = spoken(), ready = ".composer textarea" } = {}) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: theme === "dark" ? "dark" : "light", locale: language, permissions: ["clipboard-read", "clipboard-write"] });
  await choose(daemon, { theme, language });
  if (process.env.CAIRN_UI_DIST && !daemon.servesInterface) await fromFolder(context, daemon, process.env.CAIRN_UI_DIST);
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

/** Changes theme and language, as another window would. */
export async function choose(daemon, { theme = "light", language = "en" }) {
  const contrast = theme === "contrast" ? "high" : "system";
  await daemon.app("PATCH", "/app/settings", { "ui.theme": theme === "contrast" ? "system" : theme, "ui.contrast": contrast, "ui.language": language });
}

const KINDS = { html: "text/html", js: "text/javascript", css: "text/css", svg: "image/svg+xml", woff2: "font/woff2", woff: "font/woff", ttf: "font/ttf" };

const POLICIES = readFileSync(join(import.meta.dirname, "../../src-tauri/crates/http/src/ui.rs"), "utf8");

/** A content security policy of this checkout: the interface may need a newer one than that of the daemon. */
function policy(name) {
  const found = new RegExp(`const ${name}: &str = "([^"]*)"`).exec(POLICIES)?.[1];
  if (found === undefined) throw new Error(`no ${name} in ui.rs`);
  return found.replace(/\\\n\s*/g, "");
}

/** Serves the interface from a folder that is newer than the daemon, under the policies of this checkout. */
export async function fromFolder(context, daemon, folder) {
  await context.route(`${daemon.address}/ui/**`, (route) => {
    const path = new URL(route.request().url()).pathname.replace(/^\/ui\//, "") || "index.html";
    const kind = KINDS[path.split(".").at(-1)] ?? "application/octet-stream";
    const headers = { "content-type": kind, "content-security-policy": policy(path === "preview.html" ? "PREVIEW_POLICY" : "POLICY") };
    void route.fulfill({ path: join(folder, path), headers });
  });
}

export function check(condition, what) {
  if (!condition) throw new Error(what);
  console.log(`  ok: ${what}`);
}
