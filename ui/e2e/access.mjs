// Tests, in a real browser, which requests the daemon accepts from pages of other origins: the rows of the access table
// that depend on the headers of browsers.
import { createServer } from "node:http";
import { check } from "./browser.mjs";

/** Host name that `launch` resolves to this machine. */
const FOREIGN = "evil.example";

/** Scripts by the way in which they send a request. Each runs in the page and gets a URL. */
const WAYS = {
  image: (url) => void (new Image().src = url),
  script: (url) => void document.head.append(Object.assign(document.createElement("script"), { src: url })),
  stylesheet: (url) => void document.head.append(Object.assign(document.createElement("link"), { rel: "stylesheet", href: url })),
  background: (url) => void (document.body.style.background = `url(${url})`),
  video: (url) => void document.body.append(Object.assign(document.createElement("video"), { src: url })),
  frame: (url) => void document.body.append(Object.assign(document.createElement("iframe"), { src: url })),
  events: (url) => void new EventSource(url),
  beacon: (url) => void navigator.sendBeacon(url, '{"model":"m"}'),
  fetch: (url) => void fetch(url).catch(() => {}),
  "fetch without CORS": (url) => void fetch(url, { mode: "no-cors" }).catch(() => {}),
  "POST without CORS": (url) => void fetch(url, { method: "POST", mode: "no-cors", body: '{"model":"m"}' }).catch(() => {}),
  "POST of JSON": (url) => void fetch(url, { method: "POST", headers: { "content-type": "application/json" }, body: '{"model":"m"}' }).catch(() => {}),
  DELETE: (url) => void fetch(url, { method: "DELETE", body: '{"model":"m"}' }).catch(() => {}),
  form: (url) => {
    const form = Object.assign(document.createElement("form"), { method: "post", action: url, enctype: "text/plain" });
    form.append(Object.assign(document.createElement("input"), { name: '{"model":"m', value: '"}' }));
    document.body.append(form);
    form.submit();
  },
  link: (url) => {
    const link = Object.assign(document.createElement("a"), { href: url });
    document.body.append(link);
    link.click();
  },
  "fetch of a sandboxed page": (url) => void fetch(url).catch(() => {}),
};

/** A path whose page has no origin. */
const SANDBOXED = "/sandboxed";
const NAVIGATIONS = ["form", "link"];
const READS = ["/", "/api/version", "/api/tags", "/v2/", "/v2/library/m/manifests/latest", "/app/server", "/app/chats/events", "/metrics", "/ui/"];
const WRITES = ["/api/generate", "/api/chat", "/api/show", "/api/pull", "/api/create", "/app/session", "/app/stop"];
const GETS = ["image", "script", "stylesheet", "background", "video", "frame", "events", "fetch", "fetch without CORS", "link", "fetch of a sandboxed page"];
const POSTS = ["beacon", "POST without CORS", "POST of JSON", "form"];
/** Paths that a page of any origin may link to. */
const LINKED = ["/", "/api/version", "/ui/"];
/** Paths that pages of local origins may request. */
const LOCAL = ["/", "/api/version", "/api/tags", "/api/generate", "/api/chat", "/api/show", "/api/pull", "/api/create", "/api/delete"];
/** Ways in which browsers send the origin of the page. */
const WITH_ORIGIN = ["fetch", "events", "POST without CORS", "POST of JSON", "DELETE", "beacon", "form"];

/** Whether the documentation allows the request. */
function isAllowed(host, way, path) {
  if (way === "link") return LINKED.includes(path);
  return host === "localhost" && WITH_ORIGIN.includes(way) && LOCAL.includes(path);
}

/** A page that sends requests. It reports their statuses, which the browser hides from the page itself. */
class Sender {
  static async open(context, address) {
    const sender = new Sender();
    sender.page = await context.newPage();
    sender.statuses = new Map();
    sender.page.on("response", (response) => sender.statuses.set(response.url(), response.status()));
    // Also records responses that the browser hides from the page.
    const [session, urls] = [await context.newCDPSession(sender.page), new Map()];
    session.on("Network.requestWillBeSent", ({ requestId, request }) => urls.set(requestId, request.url));
    session.on("Network.responseReceivedExtraInfo", ({ requestId, statusCode }) => sender.statuses.set(urls.get(requestId), statusCode));
    await session.send("Network.enable");
    await sender.page.goto(address);
    return sender;
  }

  async send(way, url) {
    await this.page.evaluate(WAYS[way], url);
    for (let tries = 0; tries < 1000; tries += 1) {
      if (this.statuses.has(url)) return this.statuses.get(url);
      await new Promise((wait) => setTimeout(wait, 20));
    }
    throw new Error(`no response to ${way} ${url}`);
  }
}

export async function access(browser, daemon) {
  console.log("pages of other origins");
  const server = createServer((request, response) => {
    response.setHeader("content-type", "text/html");
    if (request.url === SANDBOXED) response.setHeader("content-security-policy", "sandbox allow-scripts");
    response.end("<!doctype html><body>a page</body>");
  });
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  const { port } = server.address();
  const context = await browser.newContext();
  let cells = 0;
  try {
    for (const host of [FOREIGN, "localhost"]) {
      const address = `http://${host}:${port}/`;
      const open = (way) => Sender.open(context, way.includes("sandboxed") ? new URL(SANDBOXED, address).href : address);
      const requests = [...GETS.flatMap((way) => READS.map((path) => [way, path])), ...POSTS.flatMap((way) => WRITES.map((path) => [way, path])), ["DELETE", "/api/delete"]];
      let [sender, last] = [undefined, undefined];
      for (const [way, path] of requests) {
        // A link or form replaces the page.
        if (way !== last || NAVIGATIONS.includes(way)) {
          await sender?.page.close();
          [sender, last] = [await open(way), way];
        }
        cells += 1;
        const status = await sender.send(way, `${daemon.address}${path}?cell=${cells}`);
        const allowed = status !== 401 && status !== 403;
        if (allowed !== isAllowed(host, way, path)) throw new Error(`${way} ${path} of ${host}: ${status}`);
      }
    }
    check(true, `${cells} requests of pages are allowed or refused as documented`);
    const rebound = await context.newPage();
    const response = await rebound.goto(`http://${FOREIGN}:${daemon.port}/ui/`);
    check(response.status() === 403, "a foreign name that points at this machine is refused");
  } finally {
    await context.close();
    server.close();
  }
}
