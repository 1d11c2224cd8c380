// Pictures of the README: `npm run pictures` writes them to `.github/pictures`. API keys, remotes and a cache in daily use are
// simulated; the rest is a real daemon with Pebble.
import { join } from "node:path";
import { launch, open } from "./browser.mjs";
import { Daemon } from "./daemon.mjs";
import { answer, CACHE, GB, remote, stream } from "./samples.mjs";
import { text } from "./words.mjs";

const OUT = join(import.meta.dirname, "../../.github/pictures");
const QUESTION = "How do I pull a model?";
const HOUR_MS = 3_600_000;

const REMOTES = [
  remote("gpu", "http://192.168.1.20:11434", "up", ["gemma3:27b", "gpt-oss:120b", "qwen3:32b"], { kind: "cairn", latency_ms: 3, requests: 1284, outstanding: 2, prompt_tokens: 2_400_000, cached_tokens: 2_060_000 }),
  remote("nas", "http://192.168.1.31:11434", "down", ["llama3.2:3b"], {
    requests: 58, failures: 3, prompt_tokens: 41_000, cached_tokens: 22_000, error: { error: "cannot connect to the server (No route to host)", code: "remote_unreachable", params: { reason: "No route to host" } },
  }),
  remote("office", "https://llm.example.org/v1", "up", ["gpt-oss-120b"], { kind: "openai", has_key: true, latency_ms: 38, requests: 412, prompt_tokens: 900_000, cached_tokens: 610_000 }),
];
const KEYS = [
  ["editor", ["chat"], 30, 0],
  ["grafana", ["metrics"], 12, 0],
  ["laptop", ["chat", "models"], 90, 5],
];

const context = ([owner, model, tokens, bytes, hits, copies, hours], at) => ({
  id: `c${at}`, owners: [owner], model, tokens, bytes: bytes * GB, hits, pinned: at === 1, last_used_at: new Date(Date.now() - hours * HOUR_MS).toISOString(),
  ram_bytes: copies.includes("ram") ? bytes * GB : 0, ssd_bytes: copies.includes("ssd") ? bytes * GB : 0, remote_bytes: copies.includes("remote") ? bytes * GB : 0,
});
const CONTEXTS = [
  ["editor", "qwen3:8b", 18_944, 1.32, 31, ["ram", "ssd"], 0],
  ["agent", "qwen3:8b", 41_472, 2.7, 12, ["ram", "ssd", "remote"], 0.4],
  ["notes", "llama3.2:3b", 6_208, 0.42, 4, ["ssd", "remote"], 5],
  ["research", "gpt-oss:20b", 22_016, 1.1, 2, ["ssd", "remote"], 30],
  ["archive", "qwen3:8b", 30_720, 2.1, 0, ["remote"], 70],
].map(context);

async function chat(page) {
  await page.click(`button:has-text('${text("first.chat")}')`);
  await page.fill(".composer textarea", QUESTION);
  await page.keyboard.press("Enter");
  await page.waitForSelector(".first-card", { timeout: 60_000 });
}

async function cache(page, daemon) {
  await answer(page, daemon, "/app/cache", CACHE);
  await answer(page, daemon, "/app/cache/contexts", { contexts: CONTEXTS });
  await stream(page, daemon, "/app/cache/events", CACHE);
  // The open stream has already sent the daemon's state.
  await page.reload();
  await page.goto(`${daemon.address}/ui/#/cache`);
  await page.waitForSelector("td.context");
}

async function server(page, daemon) {
  const ago = (hours) => new Date(Date.now() - hours * HOUR_MS).toISOString();
  const keys = KEYS.map(([name, scopes, days, hours]) => ({ name, scopes, created_at: ago(24 * days), last_used_at: ago(hours) }));
  await answer(page, daemon, "/app/keys", { keys });
  await answer(page, daemon, "/app/remotes", { remotes: REMOTES });
  const messages = [{ role: "user", content: QUESTION }];
  for (const [client, path] of [["notes", "/api/chat"], ["my-editor", "/v1/chat/completions"], ["my-editor", "/v1/chat/completions"]]) {
    const body = JSON.stringify({ model: "pebble", stream: true, messages });
    const response = await fetch(daemon.address + path, { method: "POST", headers: { "content-type": "application/json", "user-agent": client }, body });
    const answered = await response.text();
    if (!response.ok) throw new Error(`${path}: ${response.status}: ${answered}`);
  }
  await page.goto(`${daemon.address}/ui/#/server`);
  await page.waitForSelector(".fit.no");
  await page.$eval(`section[aria-label='${text("server.snippets")}']`, (section) => (section.scrollIntoView(), section.closest(".page").scrollBy(0, -12)));
}

const browser = await launch();
for (const [name, draw] of Object.entries({ chat, cache, server })) {
  const daemon = await Daemon.start(undefined, { welcomed: name !== "chat" });
  try {
    const { page } = await open(browser, daemon, { language: "en", ready: name === "chat" ? ".welcome .choice" : ".app-rail" });
    await draw(page, daemon);
    await page.mouse.move(0, 0);
    // Toasts and transitions end.
    await page.waitForTimeout(1000);
    await page.screenshot({ path: join(OUT, `${name}.png`) });
    console.log(`wrote ${name}.png`);
  } finally {
    await daemon.remove();
  }
}
await browser.close();
