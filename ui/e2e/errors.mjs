// Errors of the daemon in the language of the interface, by their codes.
import { check, open } from "./browser.mjs";

const MISSING = "missing-model:latest";
/** A registry that refuses connections. */
const UNREACHABLE = "127.0.0.1:9/library/nothing:latest";

export async function errors(browser, daemon) {
  console.log("errors");
  const { page, context } = await open(browser, daemon, { language: "zh-CN" });

  const chat = await daemon.app("POST", "/app/chats", { model: MISSING });
  await page.goto(`${daemon.address}/ui/#/chat/${chat.id}`);
  await page.fill(".composer textarea", "Hello");
  await page.press(".composer textarea", "Enter");
  const refused = page.locator(".refused");
  await refused.waitFor({ timeout: 20_000 });
  const text = (await refused.textContent()).trim();
  check(text.startsWith(`没有模型“${MISSING}”。`), `a missing model is reported in Chinese: ${text}`);
  await refused.getByRole("button", { name: "选择其他模型" }).click();
  await page.waitForSelector(".picker-list");
  check(true, "its button opens the list of models");
  await page.keyboard.press("Escape");

  await daemon.app("POST", "/app/downloads", { model: UNREACHABLE });
  await page.goto(`${daemon.address}/ui/#/models/downloads`);
  const notice = page.locator(".drow .problem", { hasText: "无法连接模型仓库" });
  await notice.waitFor({ timeout: 60_000 });
  check(await notice.getByRole("button", { name: "代理设置" }).isVisible(), "an unreachable registry is reported in Chinese, with the proxy settings");
  const sentence = await notice.textContent();
  await notice.locator("button[aria-expanded]").click();
  check((await notice.textContent()).length > sentence.length + 10, "the English error is behind Details");
  await context.close();
}
