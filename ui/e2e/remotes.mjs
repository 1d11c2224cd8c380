// Remotes on the Server screen: add one, see its state, check it, remove it; and what the form does about errors.
import { createServer } from "node:http";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { faults } from "./axe.mjs";
import { check, open } from "./browser.mjs";
import { text } from "./words.mjs";

const OUT = join(import.meta.dirname, "out");
const KEY = "sk-secret-of-the-remote";
/** A port that refuses connections. */
const CLOSED = "http://127.0.0.1:9";

/** A server with the OpenAI API that lists models for a key; without `models` it fails. */
async function upstream() {
  const state = { models: ["gpt-oss-120b", "pebble", "a-model-with-a-very-long-name-that-needs-more-than-one-line-2511-instruct"] };
  const server = createServer((request, response) => {
    const send = (status, body) => response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
    if (request.url !== "/v1/models") return send(404, { error: "no such page" });
    if (request.headers.authorization !== `Bearer ${KEY}`) return send(401, { error: { message: "an API key is required" } });
    return state.models ? send(200, { data: state.models.map((id) => ({ id })) }) : send(500, { error: { message: "out of order" } });
  });
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  return { state, server, url: `http://127.0.0.1:${server.address().port}` };
}

export async function remotes(browser, daemon) {
  console.log("remotes");
  mkdirSync(OUT, { recursive: true });
  const { page, noted, context } = await open(browser, daemon, { ready: ".app-rail" });
  const other = await upstream();
  const bad = [];
  const shoot = async (name) => {
    await page.waitForTimeout(250);
    await page.screenshot({ path: join(OUT, `remotes-${name}-${await page.evaluate(() => document.documentElement.lang)}.png`) });
    bad.push(...(await faults(page)).map((one) => `${name}: ${one}`));
  };
  const card = page.locator(`section[aria-label='${text("server.remotes")}']`);
  const dialog = page.locator("dialog[open]");
  const field = (key) => dialog.locator(`input[aria-label='${text(key)}']`);
  const row = (name) => card.locator("tbody tr", { hasText: name });
  const add = async (name, url) => {
    await field("server.remote_name").fill(name);
    await field("server.remote_url").fill(url);
    await page.keyboard.press("Enter");
  };
  const added = () => dialog.waitFor({ state: "detached", timeout: 20_000 });
  const names = async () => (await daemon.app("GET", "/app/remotes")).remotes.map((remote) => remote.name);
  try {
    await page.goto(`${daemon.address}/ui/#/server`);
    await card.locator("h3").waitFor();
    await card.scrollIntoViewIfNeeded();
    check((await card.locator(".empty").textContent()).includes(text("server.no_remotes_text")), "without remotes the screen explains what can be added");

    await card.locator("button", { hasText: text("server.remote_new") }).click();
    await dialog.waitFor();
    await add("my gpu", CLOSED);
    await dialog.locator(".field-error").waitFor();
    check((await dialog.locator("input[aria-invalid=true]").getAttribute("name")) === "name", "an invalid name is reported at its field");
    check(await field("server.remote_name").evaluate((input) => input === document.activeElement), "the field has the focus");
    await shoot("name");
    await dialog.locator("button", { hasText: "my-gpu" }).click();
    check((await field("server.remote_name").inputValue()) === "my-gpu", "a button enters a valid name");
    await page.keyboard.press("Enter");
    await dialog.locator("input[name=url][aria-invalid=true]").waitFor({ timeout: 20_000 });
    check((await names()).length === 0, "an unreachable server is not added");
    await shoot("unreachable");
    check(await dialog.locator("button", { hasText: text("common.retry") }).isVisible(), "another attempt is offered");
    await add("my-gpu", other.url);
    await dialog.locator("input[name=key][aria-invalid=true]").waitFor({ timeout: 20_000 });
    check((await dialog.locator(".field-error").textContent()).includes("401"), "a refused request is reported at the key");
    await field("server.remote_key").fill(KEY);
    await page.keyboard.press("Enter");
    await added();
    await row("my-gpu").locator(".fit.ok").waitFor();
    check((await row("my-gpu").textContent()).includes(text("server.key")), "the remote is listed with its key, without the key's text");
    check(!(await page.content()).includes(KEY), "the page does not contain the key");
    check((await row("my-gpu").textContent()).includes(text("server.remote_kind_openai")), "the kind of the server is shown");

    await card.locator("button", { hasText: text("server.remote_new") }).click();
    check((await field("server.remote_key").inputValue()) === "", "the form does not keep the key");
    await add("this", daemon.address);
    await dialog.getByText(daemon.address).first().waitFor({ timeout: 20_000 });
    check((await names()).length === 1, "this daemon is refused as a remote of its own");
    await field("server.remote_key").fill(KEY);
    await add("second", other.url);
    await added();
    await row("second").locator(".fit.ok").waitFor();
    await shoot("list");
    await row("my-gpu").locator(".link").click();
    check((await dialog.locator("li", { hasText: "pebble" }).textContent()).includes(text("server.remote_hidden")), "a model that a local one hides is marked");
    await shoot("models");
    await page.keyboard.press("Escape");

    other.state.models = undefined;
    await row("my-gpu").locator(`button[aria-label*='${text("server.remote_check_one")}']`).click();
    await row("my-gpu").locator(".fit.no").waitFor({ timeout: 20_000 });
    check((await row("my-gpu").textContent()).includes("500"), "a failed check shows its reason");
    check((await card.locator("[role=status]").textContent()).includes(text("server.remote_down")), "the result is announced");
    await shoot("down");

    await row("second").locator(`button[aria-label*='${text("server.remote_remove_one")}']`).click();
    await dialog.locator("button.danger").waitFor();
    await shoot("remove");
    await page.keyboard.press("Escape");
    check((await names()).length === 2, "Escape removes nothing");
    for (const name of ["second", "my-gpu"]) {
      await row(name).locator(`button[aria-label*='${text("server.remote_remove_one")}']`).click();
      await dialog.locator("button.danger").click();
      await row(name).waitFor({ state: "detached" });
    }
    check((await names()).length === 0, "remotes are removed after a confirmation");
    for (const one of new Set(bad)) console.log(`  ${one}`);
    check(bad.length === 0, "no serious accessibility fault");
    const errors = noted.errors.filter((one) => !/40\d|502/.test(one));
    check(errors.length === 0, `no error in the console ${errors.join(" | ").slice(0, 300)}`);
    check(noted.foreign.length === 0, "the page asks only the daemon");
  } finally {
    await context.close();
    other.server.close();
  }
}
