// Sizes that people reach after a year: 5,000 chats in the list, 10,000 messages in one chat, and an answer that streams fast.
import { check, open } from "./browser.mjs";

function chats(count) {
  const made = [];
  for (let at = 0; at < count; at += 1) {
    const time = new Date(Date.UTC(2026, 0, 1) + at * 60_000).toISOString();
    made.push({ id: `c${at}`, title: `Chat number ${at}`, pinned: false, created_at: time, updated_at: time, head: "a", messages: [
      { id: "q", role: "user", content: `Question ${at} about granite`, created_at: time, state: "complete" },
      { id: "a", parent: "q", role: "assistant", content: `Answer ${at}: **granite** is old.`, created_at: time, state: "complete" },
    ] });
  }
  return made;
}

function long(count) {
  const time = new Date(Date.UTC(2026, 5, 1)).toISOString();
  const messages = Array.from({ length: count }, (_, at) => ({
    id: `m${at}`,
    ...(at > 0 ? { parent: `m${at - 1}` } : {}),
    role: at % 2 === 0 ? "user" : "assistant",
    content: at % 2 === 0 ? `Question ${at}` : `Answer ${at}\n\n- one\n- two\n\n\`\`\`js\nconst a = ${at};\n\`\`\`\n\n${"Words and words. ".repeat(at % 40)}`,
    created_at: time,
    state: "complete",
  }));
  return { id: "long", title: "A very long chat", pinned: true, created_at: time, updated_at: time, head: `m${count - 1}`, messages };
}

/** Lengths of frames while something is done, in milliseconds: the 99th of a hundred, and the longest. */
async function frames(page, act) {
  await page.evaluate(() => {
    window.frames_ms = [];
    let last = performance.now();
    const step = (now) => {
      window.frames_ms.push(now - last);
      last = now;
      if (window.frames_ms !== undefined) window.frames_timer = requestAnimationFrame(step);
    };
    window.frames_timer = requestAnimationFrame(step);
  });
  await act();
  const all = await page.evaluate(() => {
    cancelAnimationFrame(window.frames_timer);
    return window.frames_ms;
  });
  all.sort((a, b) => a - b);
  return { count: all.length, p99: Math.round(all[Math.floor(all.length * 0.99)]), max: Math.round(all.at(-1)) };
}

export async function scale(browser, daemon) {
  console.log("sizes");
  const all = chats(5000);
  for (let at = 0; at < all.length; at += 1000) {
    await daemon.app("POST", "/app/chats/import", { export: { format: "cairn-chats", version: 1, exported_at: new Date().toISOString(), chats: all.slice(at, at + 1000) } });
  }
  await daemon.app("POST", "/app/chats/import", { export: { format: "cairn-chats", version: 1, exported_at: new Date().toISOString(), chats: [long(10_000)] } });
  const { page, noted, context } = await open(browser, daemon);
  await page.waitForSelector(".chat-item");
  await page.keyboard.press("Control+2");
  await page.waitForFunction(() => document.querySelector(".composer") === null);
  const opened = await page.evaluate(async () => {
    const start = performance.now();
    location.hash = "#/chat";
    while (document.querySelectorAll(".chat-item").length < 60) await new Promise((next) => requestAnimationFrame(next));
    return Math.round(performance.now() - start);
  });
  console.log(`  the list of 5,000 chats was there after ${opened} ms`);
  check(opened < 1000, "the list opens at once");

  await page.click("h2:has-text('Pinned') + ul .chat-item");
  await page.waitForSelector("article.assistant .prose");
  const drawn = await page.locator("article.message").count();
  check(drawn < 60, `${drawn} of 10,000 messages are drawn`);
  const scrolled = await frames(page, async () => {
    await page.hover(".thread");
    for (let at = 0; at < 120; at += 1) {
      await page.mouse.wheel(0, -600);
      await page.waitForTimeout(16);
    }
  });
  console.log(`  scrolling back: ${scrolled.count} frames, p99 ${scrolled.p99} ms, longest ${scrolled.max} ms`);
  const first = await page.$eval("article.message", (one) => one.textContent.slice(0, 30));
  check(!first.includes("9999"), `older messages came: ${first}`);

  await page.keyboard.press("Control+n");
  await page.waitForSelector(".new-chat");
  const streamed = await frames(page, async () => {
    await page.fill(".composer textarea", "Explain pulling, the cache and its tiers, in detail.");
    await page.keyboard.press("Enter");
    await page.waitForSelector("article.assistant .msg-foot", { timeout: 60_000 });
  });
  console.log(`  an answer of Pebble: ${streamed.count} frames, p99 ${streamed.p99} ms, longest ${streamed.max} ms`);
  check(noted.errors.length === 0, `no error in the console ${noted.errors.join(" | ").slice(0, 300)}`);
  await context.close();
}
