// Sizes after a year of use: 5,000 chats in the list, 10,000 messages in one chat. Times are printed; `bench.mjs` checks them
// against limits.
import { check, open } from "./browser.mjs";
import { text } from "./words.mjs";

const WORDS = "granite answer window bread river model memory paper train green number letter quick translation weather 模型 翻译 天气 tier".split(" ");

/** `count` chats of so many messages, each of some fifty words. */
function* chats(count, messages) {
  let state = 1;
  const word = () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    const number = (state >>> 12) & 0xfff;
    return WORDS[(state >>> 24) % WORDS.length] + (number < 1000 ? number : "");
  };
  for (let at = 0; at < count; at += 1) {
    const time = new Date(Date.UTC(2026, 0, 1) + at * 60_000).toISOString();
    const branch = Array.from({ length: messages }, (_, n) => ({
      id: `m${n}`,
      ...(n > 0 ? { parent: `m${n - 1}` } : {}),
      role: n % 2 === 0 ? "user" : "assistant",
      content: `${n % 2 === 0 ? "Question" : "The **answer**"} ${at} about ${Array.from({ length: 50 }, word).join(" ")}.`,
      created_at: time,
      state: "complete",
    }));
    yield { id: `c${at}`, title: `Chat number ${at}`, pinned: false, created_at: time, updated_at: time, head: `m${messages - 1}`, messages: branch };
  }
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

/** Frame times during an action, in milliseconds: the 99th percentile and the maximum. */
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

async function importChats(daemon, chats) {
  await daemon.app("POST", "/app/chats/import", { export: { format: "cairn-chats", version: 1, exported_at: new Date().toISOString(), chats } });
}

export async function fill(daemon, count, messages) {
  let some = [];
  for (const chat of chats(count, messages)) {
    some.push(chat);
    if (some.length === 500) await importChats(daemon, some.splice(0));
  }
  await importChats(daemon, [...some, long(10_000)]);
}

/** Time from navigation to the frame that shows a window full of chats, in milliseconds. */
export function toChats(page) {
  return page.evaluate(async () => {
    const there = () => document.querySelectorAll(".chat-item").length >= 20;
    const start = performance.now();
    location.hash = "#/chat";
    if (!there()) {
      await new Promise((found) => {
        const watch = new MutationObserver(() => there() && (watch.disconnect(), found()));
        watch.observe(document.body, { childList: true, subtree: true });
      });
    }
    // A message that is posted in a frame arrives when the frame has been painted.
    await new Promise((drawn) =>
      requestAnimationFrame(() => {
        const { port1, port2 } = new MessageChannel();
        port1.onmessage = drawn;
        port2.postMessage("");
      }),
    );
    return performance.now() - start;
  });
}

export async function away(page) {
  await page.evaluate(() => (location.hash = "#/models"));
  await page.waitForFunction(() => document.querySelector(".composer") === null);
  await page.waitForTimeout(300);
}

const middle = (values) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];

/** Time to open the list of chats: in a new page, and repeatedly. */
export async function lists(browser, daemon, rounds) {
  const [first, again] = [[], []];
  for (let round = 0; round < rounds; round += 1) {
    const { page, noted, context } = await open(browser, daemon);
    await away(page);
    await page.reload();
    await page.waitForSelector(".app-rail");
    await page.waitForTimeout(700);
    first.push(await toChats(page));
    for (let times = 0; times < 3; times += 1) {
      await away(page);
      again.push(await toChats(page));
    }
    check(noted.errors.length === 0, `no error in the console ${noted.errors.join(" | ").slice(0, 300)}`);
    await context.close();
  }
  const asked = [];
  for (let times = 0; times < 10; times += 1) {
    const start = performance.now();
    await daemon.app("GET", "/app/chats?limit=80");
    asked.push(performance.now() - start);
  }
  const summary = (values) => `${Math.round(middle(values))} ms in the middle, ${Math.round(Math.max(...values))} ms at most`;
  console.log(`  the list of 5,000 chats opens: the first time ${summary(first)}, later ${summary(again)}; the daemon's part ${middle(asked).toFixed(1)} ms`);
  return { first: middle(first), again: middle(again) };
}

/** Scrolls far back in a chat of ten thousand messages. */
export async function scrolls(page) {
  await page.click(`h2:has-text('${text("chat.group_pinned")}') + ul .chat-item`);
  await page.waitForSelector("article.assistant .prose");
  const scrolled = await frames(page, async () => {
    await page.hover(".thread");
    for (let at = 0; at < 240; at += 1) {
      await page.mouse.wheel(0, at < 160 ? -600 : 500);
      await page.waitForTimeout(16);
    }
  });
  const drawn = await page.locator("article.message").count();
  console.log(`  scrolling in 10,000 messages: ${scrolled.count} frames, p99 ${scrolled.p99} ms, longest ${scrolled.max} ms`);
  check(drawn < 60, `${drawn} of 10,000 messages are drawn`);
  const first = await page.$eval("article.message", (one) => one.textContent.slice(0, 30));
  check(!first.includes("9999"), `older messages are loaded: ${first}`);
  return scrolled;
}

/** Scrolls through all chats of the list. */
export async function browses(page) {
  const scrolled = await frames(page, async () => {
    await page.hover(".sidebar .list-scroll");
    for (let at = 0; at < 200; at += 1) {
      await page.mouse.wheel(0, 900);
      await page.waitForTimeout(16);
    }
  });
  const drawn = await page.locator(".chat-row").count();
  const [place] = await page.$$eval(".chat-row", (rows) => rows.map((row) => Number(row.getAttribute("aria-posinset"))));
  console.log(`  scrolling the list to chat ${place}: ${scrolled.count} frames, p99 ${scrolled.p99} ms, longest ${scrolled.max} ms`);
  check(drawn > 20 && drawn < 120, `${drawn} chats are drawn`);
  check(place > 1000, "the list continues");
  return scrolled;
}

export async function scale(browser, daemon) {
  console.log("sizes");
  await fill(daemon, 5000, 2);
  const opened = await lists(browser, daemon, 1);
  check(opened.first < 1000 && opened.again < 1000, "the list opens quickly");
  const { page, noted, context } = await open(browser, daemon);
  await page.waitForSelector(".chat-item");
  await browses(page);
  await page.evaluate(() => document.querySelector(".sidebar .list-scroll").scrollTo(0, 0));
  await scrolls(page);
  check(noted.errors.length === 0, `no error in the console ${noted.errors.join(" | ").slice(0, 300)}`);
  await context.close();
}
