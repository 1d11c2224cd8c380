// Performance limits: `npm run bench`, or some of them: `npm run bench -- list search`. Needs a release build of the daemon
// (`CAIRN_BIN`), the current build of the interface (`CAIRN_UI_DIST`), and an otherwise idle machine.
import { check, launch, open } from "./browser.mjs";
import { Daemon } from "./daemon.mjs";
import { browses, fill, lists, scrolls } from "./scale.mjs";
import { streamed } from "./stream.mjs";

const CHATS = 5000;
const MESSAGES = 10;
/** Queries: a letter, word beginnings with and without matches, words of every message and of none, several words. */
const SEARCHES = ["t", "g", "gr", "gran", "granit", "granite", "answer", "w", "answ numb lett", "模型", "天", "granite4", "granite999", "zeppelin", "z", "granite river 翻译"];

async function searches(daemon) {
  let slowest = 0;
  for (const search of SEARCHES) {
    const times = [];
    let hits = 0;
    for (let round = 0; round < 11; round += 1) {
      const start = performance.now();
      hits = (await daemon.app("GET", `/app/chats/search?limit=50&q=${encodeURIComponent(search)}`)).hits.length;
      times.push(performance.now() - start);
    }
    times.sort((a, b) => a - b);
    slowest = Math.max(slowest, times[5]);
    console.log(`  ${JSON.stringify(search)}: ${hits} hits, ${times[5].toFixed(1)} ms in the middle, ${times[10].toFixed(1)} ms at most`);
  }
  check(slowest < 50, `a search over ${CHATS * MESSAGES} messages takes ${slowest.toFixed(1)} ms in the middle at most`);
}

const wanted = process.argv.slice(2);
const wants = (name) => wanted.length === 0 || wanted.includes(name);
const browser = await launch();
let failed = 0;
async function run(name, work) {
  if (!wants(name)) return;
  console.log(name);
  try {
    await work();
  } catch (error) {
    failed += 1;
    console.error(`MISSED ${name}: ${error.message}`);
  }
}
const daemon = await Daemon.start();
await run("stream", () => streamed(browser, daemon, { seconds: 60, rounds: 3 }));
if (["list", "search", "scroll"].some(wants)) {
  const start = performance.now();
  await fill(daemon, CHATS, MESSAGES);
  console.log(`${CHATS} chats with ${CHATS * MESSAGES} messages imported in ${Math.round((performance.now() - start) / 1000)} s`);
  await run("search", () => searches(daemon));
  await run("list", async () => {
    const { first, again } = await lists(browser, daemon, 5);
    check(first < 100 && again < 100, "the list opens in less than 100 ms, the first time in a page as later");
  });
  await run("scroll", async () => {
    const { page, context } = await open(browser, daemon);
    await page.waitForSelector(".chat-item");
    check((await browses(page)).p99 <= 50, "the list scrolls smoothly");
    await page.evaluate(() => document.querySelector(".sidebar .list-scroll").scrollTo(0, 0));
    check((await scrolls(page)).p99 <= 50, "a long chat scrolls smoothly");
    await context.close();
  });
}
await daemon.remove();
await browser.close();
process.exit(failed === 0 ? 0 : 1);
