// Tools: in the settings with a real MCP server, in the composer, and in the thread with replayed calls.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { faults, names } from "./axe.mjs";
import { check, open } from "./browser.mjs";
import { Replay } from "./replay.mjs";
import { text } from "./words.mjs";

const OUT = join(import.meta.dirname, "out");
const SERVER = join(import.meta.dirname, "mcpServer.mjs");
const WAIT = { timeout: 20_000 };
const HOSTILE = `<img src=x onerror="window.owned=1">\nsecond line`;

/** A picture, and the accessibility faults of the page. */
function camera(page, bad) {
  return async (name) => {
    await page.waitForTimeout(250);
    const language = await page.evaluate(() => document.documentElement.lang);
    await page.screenshot({ path: join(OUT, `tools-${name}-${language}.png`) });
    bad.push(...[...(await faults(page)), ...(await names(page))].map((one) => `${name}: ${one}`));
  };
}

export async function tools(browser, daemon) {
  console.log("tools");
  mkdirSync(OUT, { recursive: true });
  await settings(browser, daemon);
  await thread(browser, daemon);
}

async function settings(browser, daemon) {
  const { page, noted, context } = await open(browser, daemon, { ready: ".app-rail" });
  const bad = [];
  const shoot = camera(page, bad);
  const state = () => daemon.app("GET", "/app/tools");
  const server = async (name) => (await state()).servers.find((one) => one.name === name);
  /** Waits until the daemon's state has a property. */
  const until = async (is, what) => {
    for (let tries = 0; tries < 100; tries += 1) {
      if (is(await state())) return check(true, what);
      await page.waitForTimeout(50);
    }
    throw new Error(what);
  };
  const section = page.locator("#settings-tools");
  const dialog = page.locator("dialog[open]");
  const row = (name) => section.locator(".origin", { has: page.locator(".name .med", { hasText: new RegExp(`^${name}$`) }) });
  const shows = (name) => row(name).locator("button.list");
  const press = (where, key) => where.locator("button", { hasText: text(key) }).click();
  const input = (name) => dialog.locator(`[name='${name}']`);
  try {
    await page.goto(`${daemon.address}/ui/#/settings/tools`);
    await row(text("settings.tools_web")).waitFor(WAIT);
    const before = await state();
    check(before.web === false && before.folder === null && before.servers.length === 0, "all tools are off by default");
    check((await section.textContent()).includes(text("tools.about")), "the section explains tools in a sentence");
    await shoot("empty");

    const web = section.locator(`button[role=switch][aria-label='${text("settings.tools_web")}']`);
    await web.click();
    await until((now) => now.web, "reading of web pages is turned on");
    await web.click();
    await until((now) => !now.web, "and off");
    const folder = row(text("settings.tools_folder"));
    await press(folder, "tools.folder_choose");
    await page.keyboard.type(daemon.home);
    await page.keyboard.press("Enter");
    await press(folder, "tools.folder_stop");
    await until((now) => now.folder === null, "a shared folder is no longer shared");
    await page.locator(".toast button", { hasText: text("common.undo") }).click();
    await until((now) => now.folder !== null, "which can be undone");
    await shows(text("settings.tools_folder")).click();
    await folder.locator("li select").first().waitFor(WAIT);
    check(true, "tools of the folder have permissions");
    await press(folder, "tools.folder_stop");
    await until((now) => now.folder === null, "the folder is not shared again");

    await press(section.locator(".servers"), "tools.add");
    await dialog.waitFor();
    await input("name").fill("my tools");
    await input("command").fill(`node ${SERVER}`);
    await page.keyboard.press("Enter");
    await dialog.locator(".field-error").waitFor();
    check((await dialog.locator("[aria-invalid=true]").getAttribute("name")) === "name", "an invalid name is reported at its field");
    await shoot("name");
    await dialog.locator("button", { hasText: "my-tools" }).click();
    await page.keyboard.press("Enter");
    await dialog.locator("[name=command][aria-invalid=true]").waitFor();
    await press(dialog, "tools.split");
    check((await input("args").inputValue()) === SERVER, "a command line is split into program and arguments");
    await input("variables").fill("TEST_SECRET=sk-very-secret");
    await shoot("add");
    await press(dialog.locator("footer"), "tools.add_act");
    await dialog.waitFor({ state: "detached", ...WAIT });
    await row("my-tools").locator("li select").first().waitFor(WAIT);
    check((await row("my-tools").textContent()).includes("TEST_SECRET"), "the server is listed with the names of its variables");
    check(!(await page.content()).includes("sk-very-secret"), "the page does not contain their values");
    check((await row("my-tools").locator("li").count()) === 2, "its tools are listed at once");
    check((await row("my-tools").textContent()).includes(text("tools.server_running")), "and it runs");
    await shoot("list");
    const permission = row("my-tools").locator("li", { hasText: "add" }).locator("select");
    const stored = page.waitForResponse((response) => response.url().endsWith("/app/tools/permission"), WAIT);
    await permission.selectOption({ label: text("tools.permission_never") });
    await stored;
    const listed = (await daemon.app("GET", "/app/tools/origins/my-tools")).tools.map((one) => one.permission);
    check(listed.join() === "ask,never", "a tool is never called, the other one asks");

    const use = row("my-tools").locator("button[role=switch]");
    await use.click();
    await until((now) => now.servers[0].enabled === false, "a server is turned off");
    await row("my-tools").getByText(text("tools.server_off"), { exact: true }).waitFor();
    await use.click();
    await until((now) => now.servers[0].enabled, "and on again");

    const pasted = { mcpServers: { dies: { command: "node", args: [SERVER, "--die"] }, second: { command: "node", args: [SERVER] } } };
    await press(section.locator(".servers"), "tools.add");
    await dialog.locator("[role=radio]", { hasText: text("tools.way_json") }).click();
    await input("text").fill("{ no json");
    await press(dialog.locator("footer"), "tools.add_act");
    await dialog.locator("[name=text][aria-invalid=true]").waitFor(WAIT);
    check(true, "a text that is no JSON is reported at its field");
    await shoot("json");
    await input("text").fill(JSON.stringify(pasted));
    await press(dialog.locator("footer"), "tools.add_act");
    await dialog.waitFor({ state: "detached", ...WAIT });
    await row("second").waitFor(WAIT);
    check((await server("dies")) !== undefined && (await server("second")) !== undefined, "servers are added from the JSON of other apps");
    await shows("dies").click();
    const failure = row("dies").locator(".error-card");
    await failure.waitFor(WAIT);
    check((await failure.textContent()).includes("no licence found"), "a server that ends shows its last words");
    check(await failure.locator("button", { hasText: text("common.retry") }).isVisible(), "and can be tried again");
    await shoot("dies");

    await press(section.locator(".servers"), "tools.add");
    await input("name").fill("second");
    await input("command").fill("node");
    await page.keyboard.press("Enter");
    await dialog.locator("[name=name][aria-invalid=true]").waitFor(WAIT);
    check(await dialog.locator("button", { hasText: "second-2" }).isVisible(), "a name that is taken gets a number");
    await page.keyboard.press("Escape");

    for (const name of ["dies", "second"]) {
      await row(name).locator(`button[aria-label*='${text("tools.remove_one")}']`).click();
      await dialog.locator("button.danger").click();
      await row(name).waitFor({ state: "detached", ...WAIT });
    }
    check((await state()).servers.map((one) => one.name).join() === "my-tools", "servers are removed after a confirmation");

    await page.locator(".sections input[type=search]").fill("mcp");
    await page.waitForFunction(() => document.querySelectorAll(".sections nav a").length === 1);
    check((await page.textContent(".sections nav")).includes(text("settings.group_tools")), "the search of the settings finds tools");
    await page.locator(".sections input[type=search]").fill("");
    await page.goto(`${daemon.address}/ui/#/chat`);
    await page.keyboard.press("Control+k");
    await page.fill(".palette input", "mcp");
    await page.locator(".palette .menu-item", { hasText: text("shell.do_tools") }).first().click();
    await page.waitForFunction(() => location.hash === "#/settings/tools");
    check(true, "the palette opens them");
    for (const one of new Set(bad)) console.log(`  ${one}`);
    check(bad.length === 0, "no serious accessibility fault in the settings");
    const errors = noted.errors.filter((one) => !/40\d|50\d/.test(one));
    check(errors.length === 0, `no error in the console ${errors.join(" | ").slice(0, 300)}`);
  } finally {
    await context.close();
  }
}

const call = (id, state, more = {}) => ({ id, function: `my_tools_${id}`, origin: "my-tools", tool: "echo", arguments: { text: `Hello ${id}` }, state, ...more });

async function thread(browser, daemon) {
  const replay = await Replay.before(daemon);
  const { page, noted, context } = await open(browser, replay);
  const bad = [];
  const shoot = camera(page, bad);
  // The test model may lack the capability.
  await page.route(`${replay.address}/api/show`, async (route) => {
    const shown = await (await route.fetch()).json();
    await route.fulfill({ json: { ...shown, capabilities: [...new Set([...(shown.capabilities ?? []), "tools"])] } });
  });
  await page.reload();
  const send = async (words) => {
    await page.fill(".composer textarea", words);
    const request = page.waitForRequest((one) => one.method() === "POST" && one.url().endsWith("/messages"), WAIT);
    await page.keyboard.press("Enter");
    return JSON.parse((await request).postData());
  };
  const answered = () => page.waitForSelector("article.latest[aria-busy='false'] .msg-foot", WAIT);
  try {
    const toggle = page.locator(".tools-toggle");
    await toggle.waitFor(WAIT);
    check((await toggle.getAttribute("aria-pressed")) === "true" && /1/.test(await toggle.textContent()), "the composer shows how many tools are on");
    await toggle.click();
    replay.pieces = ["Hello"];
    const off = await send("Without tools");
    await answered();
    check(off.tools === false && (await toggle.getAttribute("aria-pressed")) === "false", "a message without tools says so");
    await toggle.click();

    replay.steps = [
      { content: "I look that **up**.", calls: [call("a", "done", { result: "found", duration_ms: 30 }), call("b", "failed", { result: "no such entry\nand more" }), call("c", "waiting", { result: HOSTILE, arguments: { text: "Hello c", nested: { list: [1, 2] } } })] },
      { content: "", calls: [call("d", "waiting"), call("e", "interrupted")] },
    ];
    replay.pieces = ["All ", "done."];
    const on = await send("With tools");
    check(on.tools === undefined, "a message with tools needs no word for that");
    const question = page.locator(".tool-question");
    await question.waitFor(WAIT);
    check((await question.locator("button").count()) === 4, "a call that waits asks the user");
    const alert = page.locator("p[role=alert].sr");
    check((await alert.textContent()).includes("echo"), "the question is announced");
    check((await page.locator(".tool-call[data-state=waiting] dd").first().textContent()) === "Hello c", "the arguments are readable lines");
    check((await page.locator("article.latest .prose strong", { hasText: "up" }).count()) === 1, "the text before the calls stays");
    await shoot("question");
    await page.locator(".tool-waiting button").click();
    await page.waitForSelector(".tool-question button:focus");
    await page.keyboard.press("Enter");
    await page.locator(".tool-call[data-state=waiting] dd", { hasText: "Hello d" }).waitFor(WAIT);
    await page.locator(".tool-question button", { hasText: text("tools.decide_refuse") }).click();
    await answered();
    check(JSON.stringify(replay.decisions) === '[["c","once"],["d","refuse"]]', `the decisions arrive: ${JSON.stringify(replay.decisions)}`);
    const states = () => page.locator("article.latest .tool-call").evaluateAll((all) => all.map((one) => one.dataset.state).join());
    check((await states()) === "done,failed,done,refused,interrupted", `each call has its state: ${await states()}`);
    check((await page.locator(".tool-call[data-state=failed] .failure").textContent()) === "no such entry", "a failed call shows its first line");
    check((await page.locator("article.latest > .prose, article.latest .prose").last().textContent()).includes("All done."), "the answer follows the calls");
    const third = page.locator("article.latest .tool-call").nth(2);
    await third.locator("summary").click();
    check((await third.locator("pre").last().textContent()) === HOSTILE, "a result is plain text");
    check((await third.locator("pre").first().textContent()).includes('"nested"'), "nested arguments are JSON behind Details");
    check((await page.locator(".tool-call img").count()) === 0 && (await page.evaluate(() => window.owned)) === undefined, "and never HTML");
    await shoot("answer");
    await page.reload();
    await page.waitForSelector("article.latest .tool-call", WAIT);
    check((await states()) === "done,failed,done,refused,interrupted", "a stored message shows the same calls");

    await page.setViewportSize({ width: 400, height: 800 });
    await shoot("narrow");
    for (const one of new Set(bad)) console.log(`  ${one}`);
    check(bad.length === 0, "no serious accessibility fault in the thread");
    const errors = noted.errors.filter((one) => !/40\d|50\d/.test(one));
    check(errors.length === 0, `no error in the console ${errors.join(" | ").slice(0, 300)}`);
  } finally {
    await context.close();
    replay.close();
  }
}
