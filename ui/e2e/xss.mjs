// Hostile text wherever a model, a file or a server can put some: answers, thinking, titles, file names, model names, errors.
// No script may run, and no other host may be contacted. Shown in a real browser.
import { check, open } from "./browser.mjs";
import { PAYLOADS } from "./payloads.mjs";

function message(id, parent, role, more) {
  return { id, ...(parent ? { parent } : {}), role, content: "", created_at: "2026-01-01T00:00:00Z", state: "complete", ...more };
}

/** One chat with all payloads in every place. */
function hostile() {
  const messages = [];
  let parent;
  PAYLOADS.forEach((payload, at) => {
    const asked = `q${at}`;
    messages.push(message(asked, parent, "user", { content: payload, files: [{ name: payload.slice(0, 120), text: payload }] }));
    messages.push(
      message(`a${at}`, asked, "assistant", {
        content: `Number ${at}.\n\n${payload}\n\nEnd ${at}.`,
        thinking: payload,
        thinking_ms: 10,
        model: payload.slice(0, 60),
        ...(at % 3 === 0 ? { state: "failed", error: payload } : {}),
      }),
    );
    parent = `a${at}`;
  });
  const title = `<img src=x onerror=window.owned=1>`;
  return {
    format: "cairn-chats",
    version: 1,
    exported_at: "2026-01-01T00:00:00Z",
    chats: [{ id: "hostile", title, folder: title, pinned: false, created_at: "2026-01-01T00:00:00Z", updated_at: "2026-01-01T00:00:00Z", head: parent, messages }],
  };
}

export async function xss(browser, daemon) {
  console.log("hostile texts");
  check(PAYLOADS.length >= 60, `${PAYLOADS.length} payloads`);
  await daemon.app("POST", "/app/chats/import", { export: hostile() });
  const { chats } = await daemon.app("GET", "/app/chats");
  const chat = chats.find((one) => one.title.includes("onerror"));
  check(chat !== undefined, "the hostile chat is loaded");
  const { page, noted, context } = await open(browser, daemon);
  await page.goto(`${daemon.address}/ui/#/chat/${chat.id}`);
  await page.waitForSelector("article.message");
  const seen = new Set();
  const looked = async () => {
    for (const text of await page.$$eval("article.assistant .prose", (all) => all.map((one) => /Number (\d+)\./.exec(one.textContent)?.[1]).filter(Boolean))) seen.add(text);
  };
  // Scrolls up through all messages and opens closed parts.
  for (let tries = 0; seen.size < PAYLOADS.length && tries < 400; tries += 1) {
    await looked();
    await page.$$eval("details.thinking:not([open]) > summary", (all) => all.forEach((one) => one.click()));
    await page.$$eval(".prose *", (all) => all.forEach((one) => ["mouseover", "focus", "toggle"].forEach((name) => one.dispatchEvent(new Event(name)))));
    await page.$eval(".thread", (thread) => (thread.scrollTop -= thread.clientHeight * 0.8));
    await page.waitForTimeout(60);
  }
  check(seen.size === PAYLOADS.length, `all ${seen.size} answers were drawn`);
  const bad = await page.evaluate(() => ({
    owned: window.owned,
    elements: [...document.querySelectorAll(".thread script, .thread iframe, .thread object, .thread embed, .thread link, .thread style, .thread svg image, .thread svg use, .thread video, .thread audio, .thread form, .thread base, .thread meta, .thread .prose img, .thread .prose input")].map((one) => one.outerHTML.slice(0, 100)),
    handlers: [...document.querySelectorAll(".thread *")].flatMap((one) => one.getAttributeNames().filter((name) => name.startsWith("on"))),
    links: [...document.querySelectorAll(".thread a")].map((one) => one.getAttribute("href")).filter((href) => !/^(https?:|mailto:|#\/)/.test(href ?? "")),
    ids: [...document.querySelectorAll(".prose [id], .prose [name], .prose [style]:not(.katex *)")].length,
    reaching: [...document.querySelectorAll(".prose [style]")].map((one) => one.getAttribute("style")).filter((style) => /url|expression|fixed|absolute|@/i.test(style)),
  }));
  check(bad.owned === undefined, "no script ran");
  check(bad.elements.length === 0, `no element that loads or runs ${bad.elements.join(" ")}`);
  check(bad.handlers.length === 0, "no handler in any attribute");
  check(bad.links.length === 0, `only web links ${bad.links.join(" ")}`);
  check(bad.ids === 0, "no id, name or style from a model");
  check(bad.reaching.length === 0, `no style of a formula affects other elements ${bad.reaching.join(" ")}`);
  await page.goto(`${daemon.address}/ui/#/chat`);
  await page.fill(".sidebar input[type=search]", "Number");
  await page.waitForSelector(".hit");
  check((await page.evaluate(() => window.owned)) === undefined, "no script ran in the search results");
  check(noted.dialogs.length === 0, "no dialog opened");
  check(noted.foreign.length === 0, `no other host was contacted ${noted.foreign.join(" ")}`);
  check(!noted.errors.some((error) => /Content.Security.Policy|Refused to/i.test(error)), `the page's policy refused nothing ${noted.errors.join(" | ").slice(0, 300)}`);
  await context.close();
}
