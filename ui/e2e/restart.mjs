// The daemon ends and restarts under a window, which asks its platform for the new token. The platform is simulated here.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { check, fromFolder } from "./browser.mjs";

function own(daemon) {
  const { token } = JSON.parse(readFileSync(join(daemon.home, "run/daemon.json"), "utf8"));
  return { address: daemon.address, token };
}

export async function restart(browser, daemon) {
  console.log("restarted daemon");
  const context = await browser.newContext();
  await context.exposeFunction("shellServer", () => own(daemon));
  await context.addInitScript(() => {
    const invoke = (command) => (command === "server" ? window.shellServer() : Promise.reject(new Error(`no ${command}`)));
    window.__TAURI_INTERNALS__ = { invoke, transformCallback: () => 0 };
  });
  if (process.env.CAIRN_UI_DIST) await fromFolder(context, daemon, process.env.CAIRN_UI_DIST);
  // The first message does not wait for the list of models.
  await context.route("**/api/tags", async (route) => {
    await new Promise((wait) => setTimeout(wait, 1_000));
    await route.continue();
  });
  const page = await context.newPage();
  await page.goto(`${daemon.address}/ui/`);
  const say = async (text, answers) => {
    await page.fill(".composer textarea", text);
    await page.press(".composer textarea", "Enter");
    await page.waitForFunction((count) => document.querySelectorAll("article.assistant .msg-foot").length === count, answers, { timeout: 20_000 });
  };
  await say("Hello", 1);
  check(true, "the window has an answer");
  await daemon.kill();
  await daemon.run();
  await say("And now?", 2);
  check(true, "the window has an answer of the restarted daemon");
  await context.close();
}
