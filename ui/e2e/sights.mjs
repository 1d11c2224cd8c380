// States that the other pictures lack: dialogs, menus, popovers, and busy downloads, tiers and search results. States that the
// daemon does not reach in a test are simulated. Pictures for review, and the accessibility faults that axe finds.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { faults } from "./axe.mjs";
import { check, open } from "./browser.mjs";
import { answer, CACHE, GB, remote, stream } from "./samples.mjs";

const OUT = join(import.meta.dirname, "out");
const VIEWS = [
  ["en", "light", 1440, 900],
  ["en", "dark", 900, 600],
  ["zh-CN", "light", 900, 600],
  ["zh-CN", "dark", 1440, 900],
];
const LONG = "hf.co/some-rather-long-organisation/A-Model-With-A-Very-Long-Name-Instruct-2511-GGUF:Q4_K_M";

function download(id, model, state, total, part, more = {}) {
  return { id, model, state, total, completed: Math.round(total * part), bytes_per_second: 0, held_bytes: Math.round(total * part), detached: true, ...more };
}
const DOWNLOADS = {
  limit_bytes_per_second: 60e6,
  downloads: [
    download(1, "qwen3:8b", "running", 5.2 * GB, 0.62, { bytes_per_second: 41e6, eta_seconds: 48, source: "registry.ollama.ai" }),
    download(2, LONG, "running", 18.6 * GB, 0.08, { bytes_per_second: 12.4e6, eta_seconds: 1380, source: "huggingface.co", problem: "The connection dropped 3 times at 1.5 of 18.6 GB." }),
    download(3, "gemma3:4b", "queued", 0, 0),
    download(4, "llama3.2:3b", "paused", 2 * GB, 0.35),
    download(5, "mistral:7b", "failed", 4.4 * GB, 0.97, { error: "registry.ollama.ai answered 403" }),
    download(6, "nomic-embed-text", "done", 274e6, 1),
    download(7, "phi4:14b", "stopped", 9.1 * GB, 0.4),
  ],
};
const [RAM, SSD, REMOTE] = CACHE.tiers;
const FAILING_CACHE = { ...CACHE, cut_short: 2, dropped: 14, remote: "/mnt/office-nas/cairn", tiers: [RAM, SSD, { ...REMOTE, health: "away", reason: "office-nas does not answer" }] };
const CONTEXTS = {
  contexts: [
    ["chat:looks", 12_611, 879e6, [1, 1, 1]],
    ["vscode", 18_944, 1.32e9, [1, 1, 0]],
    ["an agent with a very long name that a user gave it one day", 41_472, 2.7e9, [0, 1, 1]],
  ].map(([owner, tokens, size, [ram, ssd, remote]], at) => ({
    id: `c${at}`, owners: at === 1 ? ["vscode", "notes"] : [owner], model: at === 2 ? LONG : "qwen3:8b", tokens, bytes: size, ram_bytes: ram * size, ssd_bytes: ssd * size, remote_bytes: remote * size, hits: 7 * at, last_used_at: new Date().toISOString(), pinned: at === 1,
  })),
};

const REMOTES = {
  remotes: [
    remote("gpu", "http://192.168.1.20:11434", "up", ["qwen3:8b", "pebble:latest"], { kind: "cairn", latency_ms: 14, hidden_models: ["pebble:latest"], requests: 1284, outstanding: 2, failures: 3, prompt_tokens: 2_400_000, cached_tokens: 2_060_000 }),
    remote("office-machine-with-a-long-name", "https://models.office.example.org/some/long/path/to/the/api", "paused", [LONG], { kind: "openai", has_key: true, requests: 71, failures: 12, error: { error: "the server sent no first token within 900 s", code: "remote_timeout", params: { seconds: "900" } } }),
    remote("nas", "http://nas:8000", "down", [], { error: { error: "cannot connect to the server (Connection refused (os error 111))", code: "remote_unreachable", params: { reason: "Connection refused (os error 111)" } } }),
    remote("spare", "http://10.0.0.9:8000", "unknown", [], { kind: "openai", latency_ms: 0 }),
  ],
};
const PROBLEM = "the chat template is not valid: line 12: unexpected end of the template";

/** Answers requests of the page in place of the daemon. */
async function tell(page, daemon) {
  await stream(page, daemon, "/app/downloads/events", DOWNLOADS);
  await stream(page, daemon, "/app/cache/events", FAILING_CACHE);
  await answer(page, daemon, "/app/cache", FAILING_CACHE);
  await answer(page, daemon, "/app/cache/contexts", CONTEXTS);
  await answer(page, daemon, "/app/remotes", REMOTES);
  await page.route(`${daemon.address}/api/show`, async (route) => route.fulfill({ json: { ...(await (await route.fetch()).json()), template_problem: PROBLEM } }));
  await stream(page, daemon, "/app/import", { status: "success", model: "broken:latest", size: 1.2 * GB, way: "copied", made_read_only: false, moved: false, chat_template: true, template_problem: PROBLEM });
}

export async function sights(browser, daemon) {
  console.log("sights");
  mkdirSync(OUT, { recursive: true });
  const at = new Date().toISOString();
  const titles = ["Race in the slot scheduler", "A chat whose title is so long that no list of chats has room for all of it", "给小船起名", "Bread timing"];
  const chats = titles.map((title, index) => ({ id: `looks${index}`, title, pinned: index === 1, ...(index === 3 ? { folder: "A folder with a long name for work" } : {}), created_at: at, updated_at: at, head: "m", messages: [{ id: "m", role: "user", content: `${title}: where is the race?`, created_at: at, state: "complete" }] }));
  await daemon.app("POST", "/app/chats/import", { export: { format: "cairn-chats", version: 1, exported_at: at, chats } });
  const bad = [];
  for (const [language, theme, width, height] of VIEWS) {
    const { page, context } = await open(browser, daemon, { width, height, theme, language });
    await tell(page, daemon);
    // Open streams have already sent the daemon's state.
    await page.reload();
    await page.waitForSelector(".chat-row");
    const shoot = async (name) => {
      await page.waitForTimeout(350);
      await page.screenshot({ path: join(OUT, `sight-${name}-${language}-${theme}-${width}.png`) });
      bad.push(...(await faults(page)).map((one) => `${name} ${language} ${theme} ${width}: ${one}`));
    };
    const go = async (route, ready) => {
      await page.goto(`${daemon.address}/ui/#/${route}`);
      await page.waitForSelector(ready);
    };
    /** Opens something, takes a picture, and closes it. */
    const layer = async (name, act, ready) => {
      await act();
      await page.waitForSelector(ready);
      await shoot(name);
      await page.keyboard.press("Escape");
      await page.waitForSelector(ready, { state: "detached" });
    };
    const row = (n) => page.locator(".chat-row").nth(n);
    const menu = async (n) => {
      await row(n).hover();
      await row(n).locator(".chat-more").click();
    };
    await layer("chat-menu", () => menu(0), ".menu .menu-item");
    // A dialog with a field has the focus in it.
    await layer("rename", async () => (await menu(0), await page.locator(".menu .menu-item").nth(0).click()), "dialog[open] input:focus");
    await layer("move", async () => (await menu(0), await page.locator(".menu .menu-item").nth(2).click()), "dialog[open]");
    const more = page.locator(".sidebar-head [aria-haspopup=menu]");
    await layer("list-menu", () => more.click(), ".menu .menu-item");
    await layer("from-ollama", async () => (await more.click(), await page.locator(".menu .menu-item").last().click()), "dialog[open]");
    await page.fill(".sidebar input[type=search]", "race");
    await page.waitForSelector(".hit");
    await shoot("search");
    await page.fill(".sidebar input[type=search]", "zeppelin");
    await page.waitForSelector(".hits-none");
    await shoot("search-none");
    await page.fill(".sidebar input[type=search]", "");
    await page.waitForSelector(".chat-row");
    await go("models/downloads", ".drow");
    await page.waitForSelector(".past .problem");
    await shoot("downloads");
    await go("models/installed", ".table tbody tr");
    await layer("model-menu", () => page.click(".table tbody tr [aria-haspopup=menu]"), ".menu .menu-item");
    await layer("fit", () => page.click(".fit >> nth=0"), ".sum dl");
    await layer("details", () => page.click(".table tbody td.name button"), "dialog[open] .notice");
    await layer("import", () => page.click("header .btn:has(svg)"), "dialog[open]");
    const imported = async () => {
      await page.click("header .btn:has(svg)");
      await page.fill("dialog[open] input >> nth=0", "/home/me/broken.gguf");
      await page.click("dialog[open] .btn.primary");
    };
    await layer("imported", imported, "dialog[open] .notice");
    await go("server", ".addr");
    await page.waitForSelector("section .fit.warn");
    await page.locator("section:has(.fit.warn)").scrollIntoViewIfNeeded();
    await shoot("remotes");
    await go("cache", ".tier-row");
    await page.waitForSelector("td.context");
    await shoot("cache");
    await layer("clear", () => page.locator("header .btn").last().click(), "dialog[open]");
    await layer("trace", () => page.locator("header .btn").first().click(), "dialog[open]");
    await page.$eval(".page", (one) => one.scrollTo(0, one.scrollHeight));
    await shoot("cache-end");
    await go("settings/engine", "#settings-engine .setting");
    await shoot("settings-engine");
    await go("settings/network", "#settings-network .setting");
    await shoot("settings-network");
    await context.close();
  }
  for (const one of new Set(bad)) console.log(`  ${one}`);
  check(bad.length === 0, "no serious accessibility fault in dialogs, menus and full screens");
}
