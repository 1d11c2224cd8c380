// Models, cache, hardware, server, settings and the first run, against a real daemon: actions and their effects, and pictures of
// each in both languages, all themes and two sizes, for review.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { faults } from "./axe.mjs";
import { check, open } from "./browser.mjs";
import { text } from "./words.mjs";

const OUT = join(import.meta.dirname, "out");
const SIZES = [
  [1440, 900],
  [900, 600],
];
const SCREENS = [
  ["cache", "cache", ".tier-row"],
  ["installed", "models/installed", ".table tbody tr"],
  ["discover", "models/discover", "article.model"],
  ["downloads", "models/downloads", ".sect"],
  ["documents", "documents", ".empty"],
  ["hardware", "hardware", ".facts"],
  ["server", "server", ".addr"],
  ["settings", "settings", "#settings-engine .setting"],
];

/** Sends Pebble enough prompts to fill the cache. */
async function fill(daemon) {
  const story = "The cairn stands where two paths meet, and everyone who passes adds a stone. ".repeat(24);
  for (const [at, owner] of ["vscode", "notes", "chat:gone"].entries()) {
    for (const turn of [1, 2]) {
      const response = await fetch(`${daemon.address}/api/chat`, {
        method: "POST",
        headers: { "content-type": "application/json", "x-cairn-owner": owner },
        body: JSON.stringify({ model: "pebble", stream: false, messages: [{ role: "user", content: `${at}: ${story}${turn}` }], options: { num_predict: 8 } }),
      });
      if (!response.ok) throw new Error(`Pebble failed: ${response.status}: ${await response.text()}`);
    }
  }
  // A prefix is stored in the tiers when its model unloads.
  await fetch(`${daemon.address}/api/generate`, { method: "POST", body: JSON.stringify({ model: "pebble", keep_alive: 0, stream: false }) });
}

async function go(page, daemon, route, ready) {
  await page.goto(`${daemon.address}/ui/#/${route}`);
  await page.waitForSelector(ready);
}

export async function panels(browser, daemon) {
  console.log("panels");
  mkdirSync(OUT, { recursive: true });
  await fill(daemon);
  await acts(browser, daemon);
  await fill(daemon);
  const bad = [];
  for (const language of ["en", "zh-CN"]) {
    for (const theme of ["light", "dark", "contrast"]) {
      for (const [width, height] of SIZES) {
        if (theme === "contrast" && width < 1000) continue;
        const { page, noted, context } = await open(browser, daemon, { width, height, theme, language, ready: ".app-rail" });
        for (const [name, route, ready] of SCREENS) {
          await go(page, daemon, route, ready);
          await page.waitForTimeout(400);
          await page.screenshot({ path: join(OUT, `panel-${name}-${language}-${theme}-${width}.png`) });
          bad.push(...(await faults(page)).map((one) => `${name} ${language} ${theme} ${width}: ${one}`));
        }
        // A deleted chat has no title, so its request fails.
        const errors = noted.errors.filter((one) => !one.includes("404"));
        if (errors.length > 0) bad.push(`${language} ${theme} ${width}: ${errors.join(" | ").slice(0, 300)}`);
        if (noted.foreign.length > 0) bad.push(`asked outside: ${noted.foreign[0]}`);
        await context.close();
      }
    }
  }
  for (const one of new Set(bad)) console.log(`  ${one}`);
  check(bad.length === 0, "no serious accessibility fault on the screens");
}

async function acts(browser, daemon) {
  const { page, noted, context } = await open(browser, daemon, { ready: ".app-rail" });
  const setting = async (key) => (await daemon.app("GET", "/app/settings")).settings.find((one) => one.key === key);

  await go(page, daemon, "cache", ".tier-row");
  const contexts = async () => (await daemon.app("GET", "/app/cache/contexts")).contexts;
  await page.waitForSelector("td.context");
  const before = await contexts();
  check(before.length > 0, "prompts are cached");
  await page.click("td button[aria-pressed='false'] >> nth=0");
  await page.waitForSelector("td button[aria-pressed='true']");
  check((await contexts()).some((one) => one.pinned), "a context is pinned");

  const rows = await page.locator("td.context").count();
  await page.click("td button[aria-label^='Remove'] >> nth=-1");
  await page.waitForFunction((rows) => document.querySelectorAll("td.context").length === rows - 1, rows);
  await page.click(".toast button:has-text('Undo')");
  await page.waitForFunction((rows) => document.querySelectorAll("td.context").length === rows, rows);
  check((await contexts()).length === before.length, "an undone removal keeps the context");

  await page.click(`button[role=switch][aria-label='${text("cache.advanced")}']`);
  const ram = page.locator("input[type=text][aria-label='RAM']");
  await ram.fill("64 MB");
  await ram.press("Enter");
  await page.waitForFunction(() => document.querySelector(".toast")?.textContent.includes("Saved"));
  check((await setting("cache.ram")).value === 64e6, "a budget is saved");
  const budget = async () => (await daemon.app("GET", "/app/cache")).tiers.find((one) => one.tier === "ram").budget_bytes;
  check((await budget()) === 64e6, "the budget applies at once");
  await ram.fill("much");
  await ram.press("Enter");
  await page.waitForSelector(".field-error:has-text('such as')");
  check((await setting("cache.ram")).value === 64e6, "an invalid size changes nothing");

  await page.fill("input[aria-label='Remote location']", join(daemon.home, "nowhere/at/all"));
  await page.click("button:has-text('Test')");
  await page.waitForSelector(".remote .works, .remote .fails");
  check(true, "a remote location is tested before it is used");

  await page.click("header button:has-text('Clear')");
  await page.click("dialog button.danger");
  await page.waitForSelector("dialog", { state: "detached" });
  await page.waitForFunction(() => document.querySelectorAll("td.context").length === 0);
  check((await contexts()).length === 0, "the cache can be cleared");

  await go(page, daemon, "settings/network", "#settings-network .setting");
  const file = page.locator("#settings-network input[aria-label='Additional certificates']");
  await file.fill("soon");
  await file.press("Enter");
  await page.waitForSelector(".field-error");
  check((await setting("network.ca_file")).origin === "default", "an invalid value is reported at its field");
  await go(page, daemon, "settings/engine", "#settings-engine .setting");
  const keep = page.locator("input[aria-label='Keep models loaded for']");
  check((await keep.inputValue()) === "5", "a duration has a number and a unit");
  await keep.fill("10");
  await keep.press("Enter");
  await page.waitForSelector("#settings-engine .chip:has-text('changed')");
  check((await setting("engine.keep_alive")).value === "10m", "a setting is saved");
  const saved = page.waitForResponse((response) => response.url().endsWith("/app/settings") && response.request().method() === "PATCH");
  await page.selectOption("select[aria-label^='Keep models loaded for']", { label: "without end" });
  await saved;
  check((await setting("engine.keep_alive")).value === "-1", "a duration can be without end");

  await go(page, daemon, "models/installed", ".table tbody tr");
  await page.click(".fit >> nth=0");
  await page.waitForSelector(".sum dl");
  check(true, "a badge shows its figures");
  await page.keyboard.press("Escape");
  await go(page, daemon, "models/discover", "article.model");
  check((await page.locator("article.model .chip.capability svg").count()) > 0, "capabilities on cards have icons");
  const why = page.locator("article.model button", { hasText: text("models.why") }).first();
  await why.click();
  const sum = page.locator(".popover .sum");
  await sum.waitFor();
  check((await sum.textContent()).includes(text("models.fit_need")) && (await sum.locator("dt.total").count()) === 2, "Why shows what a model needs, what there is, and the difference");
  await page.screenshot({ path: join(OUT, "why.png") });
  const whyFaults = await faults(page);
  check(whyFaults.length === 0, `no fault of Why ${whyFaults.join(" | ")}`);
  await page.keyboard.press("Escape");
  await page.setViewportSize({ width: 400, height: 800 });
  await why.scrollIntoViewIfNeeded();
  await why.click();
  await sum.waitFor();
  const box = await sum.boundingBox();
  check(box.x >= 0 && box.x + box.width <= 400, "Why is inside of a window of 400 px");
  await page.screenshot({ path: join(OUT, "why-400.png") });
  await page.keyboard.press("Escape");
  await page.setViewportSize({ width: 1440, height: 900 });
  await page.fill("input[type=search]", "ollama run qwen3:0.6b");
  await page.waitForSelector(".pasted");
  check((await page.textContent(".pasted .name")) === "qwen3:0.6b", "a pasted command is a model name");
  check(noted.errors.filter((one) => !/400|404|422/.test(one)).length === 0, `no error: ${noted.errors.join(" | ")}`);
  await context.close();
}

export async function first(browser, daemon) {
  console.log("first");
  mkdirSync(OUT, { recursive: true });
  const bad = [];
  for (const [language, theme, width, height] of [["en", "light", 1440, 900], ["zh-CN", "dark", 1440, 900], ["en", "dark", 900, 600], ["zh-CN", "light", 900, 600]]) {
    const { page, context } = await open(browser, daemon, { width, height, theme, language, ready: ".welcome .choice" });
    await page.waitForTimeout(800);
    await page.screenshot({ path: join(OUT, `panel-first-${language}-${theme}-${width}.png`) });
    bad.push(...(await faults(page)).map((one) => `first ${language} ${theme} ${width}: ${one}`));
    await context.close();
  }
  for (const one of bad) console.log(`  ${one}`);
  check(bad.length === 0, "no serious accessibility fault on the first screen");
  const { page, noted, context } = await open(browser, daemon, { ready: ".welcome .choice" });
  await page.click(`.welcome button:has-text('${text("first.lan_none")}')`);
  await page.keyboard.press("Escape");
  check((await page.locator(`.welcome input[aria-label='${text("first.lan_address")}']`).count()) === 0, "Esc closes the entry of a computer");
  await page.click(`.welcome button:has-text('${text("first.lan_none")}')`);
  await page.fill(`.welcome input[aria-label='${text("first.lan_address")}']`, "127.0.0.1:9");
  await page.fill(`.welcome input[aria-label='${text("first.lan_code")}']`, "nonsense");
  await page.keyboard.press("Enter");
  await page.waitForSelector(".welcome .field-error");
  check(true, "a failed join is reported");
  await page.click(`.welcome button:has-text('${text("common.cancel")}')`);
  await page.click(`button:has-text('${text("first.chat")}')`);
  await page.waitForSelector(".composer textarea");
  await page.fill(".composer textarea", "Hello");
  await page.keyboard.press("Enter");
  await page.waitForSelector("article.assistant");
  check(noted.foreign.length === 0, "Pebble answers at once, without requests to other hosts");
  await page.waitForSelector(".first-card", { timeout: 60_000 });
  const card = await page.textContent(".first-card");
  check(card.includes(text("chat.first_speed")) && card.includes(daemon.address), `a card shows the speed and the address: ${card.replace(/\s+/g, " ").trim()}`);
  await page.screenshot({ path: join(OUT, "panel-first-card.png") });
  await page.click(`.first-card button[aria-label*='${text("chat.first_copy")}']`);
  check((await page.evaluate(() => navigator.clipboard.readText())) === daemon.address, "the address can be copied");
  await page.click(`.first-card button[aria-label='${text("common.close")}']`);
  check((await page.locator(".first-card").count()) === 0, "the card can be closed");
  await context.close();
  const again = await open(browser, daemon);
  check((await again.page.locator(".welcome").count()) === 0, "the first run is shown once");
  await again.context.close();
}
