// An answer of 200 tokens per second for a minute, replayed into the real chat screen: frame times, and the growth of the page's
// memory. `npm run bench` runs the minute three times, the tests one run of three seconds.
import { readFileSync } from "node:fs";
import { check, open } from "./browser.mjs";
import { answer } from "./answer.mjs";
import { Replay } from "./replay.mjs";

const MB = 1_000_000;
const PER_SECOND = 200;
/** Enough to contain every kind of part. */
const WARM_PIECES = 1500;
const MOST_FRAME_MS = 100;
const MOST_GROWTH_MB = 20;

/** Memory of each renderer process after garbage collection, in MB. */
async function memory(browser, page) {
  const session = await page.context().newCDPSession(page);
  await session.send("HeapProfiler.enable");
  for (let times = 0; times < 3; times += 1) {
    await session.send("HeapProfiler.collectGarbage");
    // Collection alone does not return the memory.
    await session.send("Memory.simulatePressureNotification", { level: "critical" });
    await page.waitForTimeout(500);
  }
  const { usedSize } = await session.send("Runtime.getHeapUsage");
  await session.detach();
  const whole = await browser.newBrowserCDPSession();
  const { processInfo } = await whole.send("SystemInfo.getProcessInfo");
  await whole.detach();
  const processes = new Map();
  for (const { type, id } of processInfo) {
    if (type !== "renderer") continue;
    const status = readFileSync(`/proc/${id}/status`, "utf8");
    const mb = (name) => (Number(new RegExp(`${name}:\\s+(\\d+)`).exec(status)[1]) * 1024) / MB;
    processes.set(id, { rss: mb("VmRSS"), own: mb("RssAnon") });
  }
  return { heap: usedSize / MB, processes };
}

/** Growth of the process that has grown most, which is the page's. */
function growth(before, after) {
  const all = [...after.processes].flatMap(([id, now]) => {
    const then = before.processes.get(id);
    return then === undefined ? [] : [{ rss: now.rss, rssGrown: now.rss - then.rss, ownGrown: now.own - then.own }];
  });
  const most = all.reduce((a, b) => (b.rssGrown > a.rssGrown ? b : a));
  return Object.fromEntries(Object.entries({ ...most, heapGrown: after.heap - before.heap }).map(([name, mb]) => [name, Math.round(mb * 10) / 10]));
}

/** Records frames and long tasks of a page. */
function watch(page) {
  return page.evaluate(() => {
    const noted = { frames: [], tasks: [], on: true };
    window.cairn_noted = noted;
    let last = performance.now();
    const step = (now) => {
      noted.frames.push(now - last);
      last = now;
      if (noted.on) requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
    new PerformanceObserver((list) => noted.tasks.push(...list.getEntries().map((entry) => entry.duration))).observe({ type: "longtask" });
  });
}

async function watched(page) {
  const noted = await page.evaluate(() => {
    window.cairn_noted.on = false;
    return window.cairn_noted;
  });
  const frames = noted.frames.toSorted((a, b) => a - b);
  const at = (part) => Math.round(frames[Math.min(frames.length - 1, Math.floor(frames.length * part))] * 10) / 10;
  return { frames: frames.length, p50: at(0.5), p99: at(0.99), max: at(1), tasks: noted.tasks.length, longestTask: Math.round(Math.max(0, ...noted.tasks)) };
}

async function once(browser, replay, seconds, seed) {
  const { page, noted, context } = await open(browser, replay);
  replay.perSecond = PER_SECOND;
  const ask = async (pieces) => {
    replay.pieces = pieces;
    await page.fill(".composer textarea", "Tell me all about it.");
    await page.keyboard.press("Enter");
    const done = `article.latest[aria-busy='false'] .msg-foot :text("${pieces.length.toLocaleString("en")}")`;
    await page.waitForSelector(done, { timeout: (seconds + 60) * 1000 });
    await page.waitForTimeout(300);
  };
  // The highlighter, KaTeX and fonts load with the first answer and stay; that is no growth.
  await ask(answer(WARM_PIECES, 99));
  const before = await memory(browser, page);
  await watch(page);
  await ask(answer(seconds * PER_SECOND, seed));
  const times = await watched(page);
  const after = await memory(browser, page);
  const drawn = () => page.$eval("article.latest .prose", (one) => one.innerHTML.replace(/<!--[^>]*-->/g, ""));
  const streamed = await drawn();
  const hash = await page.evaluate(() => location.hash);
  await page.keyboard.press("Alt+n");
  await page.waitForSelector(".new-chat");
  await page.evaluate((hash) => (location.hash = hash), hash);
  await page.waitForSelector("article.latest .msg-foot");
  await page.waitForTimeout(500);
  check((await drawn()) === streamed, `the streamed text equals a rendering of the whole (${streamed.length} characters)`);
  check(noted.errors.length === 0, `no error in the console ${noted.errors.join(" | ").slice(0, 300)}`);
  await context.close();
  return { ...times, ...growth(before, after) };
}

/** `rounds` of `seconds` each; the best one counts. */
export async function streamed(browser, daemon, { seconds, rounds }) {
  const replay = await Replay.before(daemon);
  try {
    const all = [];
    for (let round = 0; round < rounds; round += 1) {
      const run = await once(browser, replay, seconds, round + 1);
      console.log(
        `  ${seconds} s, ${run.frames} frames: p50 ${run.p50} ms, p99 ${run.p99} ms, longest ${run.max} ms; ${run.tasks} long tasks, longest ${run.longestTask} ms; ` +
          `memory ${run.rssGrown} MB more, to ${run.rss} MB (${run.ownGrown} MB of its own, ${run.heapGrown} MB in scripts' heap)`,
      );
      all.push(run);
    }
    const best = (what) => Math.min(...all.map((run) => run[what]));
    check(best("p99") <= MOST_FRAME_MS, `best of ${rounds}: of a hundred frames 99 take ${best("p99")} ms at most, the longest ${best("max")} ms`);
    check(best("rssGrown") <= MOST_GROWTH_MB, `best of ${rounds}: the page has grown by ${best("rssGrown")} MB`);
  } finally {
    replay.close();
  }
}

/** The short one, for the tests. */
export async function stream(browser, daemon) {
  console.log("an answer that streams fast");
  await streamed(browser, daemon, { seconds: 3, rounds: 1 });
}
