// A proxy of the daemon that replays one answer: all other requests go to the real daemon; chat requests are answered here, delta
// by delta at a rate that no test model reaches. The interface comes from `CAIRN_UI_DIST`, if set.
import { existsSync, readFileSync } from "node:fs";
import { createServer, request } from "node:http";
import { join } from "node:path";

const KINDS = { html: "text/html", js: "text/javascript", css: "text/css", svg: "image/svg+xml", woff2: "font/woff2" };
const TICK_MS = 5;

export class Replay {
  /** The deltas of the next answer, and their rate per second. */
  pieces = [];
  perSecond = 200;
  /** Steps with calls of tools before the deltas. A call that waits continues once the page has decided, and has `result` then. */
  steps = [];
  /** Decisions of the page: the call and what the user chose. */
  decisions = [];
  /** The proxy serves the interface itself, so requests of pages are not intercepted. */
  servesInterface = true;
  #chats = new Map();
  #waiting = new Map();
  /** Breaks the running answer. */
  #cut = () => {};

  static async before(daemon) {
    const replay = new Replay();
    replay.daemon = daemon;
    replay.policy = (await fetch(`${daemon.address}/ui/`)).headers.get("content-security-policy") ?? "";
    replay.server = createServer((asked, answer) => void replay.#serve(asked, answer));
    await new Promise((listening) => replay.server.listen(0, "127.0.0.1", listening));
    replay.address = `http://127.0.0.1:${replay.server.address().port}`;
    return replay;
  }

  ticket() {
    return this.daemon.ticket().replace(this.daemon.address, this.address);
  }

  app(...request) {
    return this.daemon.app(...request);
  }

  /** Breaks the connection of the running answer. Its text so far stays. */
  cut() {
    this.#cut();
  }

  close() {
    this.server.closeAllConnections();
    this.server.close();
  }

  async #serve(asked, answer) {
    const { pathname } = new URL(asked.url, this.address);
    const chat = /^\/app\/chats\/([^/]+)\/messages$/.exec(pathname)?.[1];
    if (asked.method === "POST" && chat !== undefined) return this.#answer(chat, await body(asked), answer);
    const call = /^\/app\/chats\/[^/]+\/calls\/([^/]+)$/.exec(pathname)?.[1];
    if (asked.method === "POST" && this.#waiting.has(call)) return this.#decide(call, (await body(asked)).decision, answer);
    if (asked.method === "GET" && this.#chats.has(chat)) return json(answer, this.#chats.get(chat));
    const dist = process.env.CAIRN_UI_DIST;
    if (pathname.startsWith("/ui/") && dist) return this.#file(join(dist, pathname.slice("/ui/".length) || "index.html"), answer);
    this.#forward(asked, answer);
  }

  #file(path, answer) {
    if (!existsSync(path)) return answer.writeHead(404).end();
    const kind = KINDS[path.split(".").at(-1)] ?? "application/octet-stream";
    answer.writeHead(200, { "content-type": kind, "content-security-policy": this.policy }).end(readFileSync(path));
  }

  #forward(asked, answer) {
    const headers = { ...asked.headers, host: new URL(this.daemon.address).host };
    if (headers.origin) headers.origin = this.daemon.address;
    if (headers.referer) headers.referer = headers.referer.replace(this.address, this.daemon.address);
    const onward = request(this.daemon.address + asked.url, { method: asked.method, headers }, (response) => {
      answer.writeHead(response.statusCode, response.headers);
      response.pipe(answer);
    });
    onward.on("error", () => answer.destroy());
    answer.on("close", () => onward.destroy());
    asked.pipe(onward);
  }

  #decide(call, decision, answer) {
    this.decisions.push([call, decision]);
    answer.writeHead(204).end();
    this.#waiting.get(call)(decision);
    this.#waiting.delete(call);
  }

  /** Sends the steps, and returns them as they are stored. */
  async #steps(line) {
    const stored = [];
    for (const [index, step] of this.steps.entries()) {
      if (step.content !== "") line({ text: step.content });
      const calls = [...step.calls];
      const send = () => line({ step: { index, step: { ...step, calls: [...calls] } } });
      send();
      for (const [at, { result, ...call }] of step.calls.entries()) {
        if (call.state !== "waiting") continue;
        calls[at] = call;
        send();
        const decision = await new Promise((decided) => this.#waiting.set(call.id, decided));
        const isAllowed = decision === "once" || decision === "always";
        calls[at] = isAllowed ? { ...call, state: "done", result, duration_ms: 420 } : { ...call, state: "refused" };
        send();
      }
      stored.push({ ...step, calls });
    }
    return stored.length > 0 ? { steps: stored } : {};
  }

  async #answer(chat, question, answer) {
    const created_at = new Date().toISOString();
    const base = { created_at, model: question.model };
    const before = this.#chats.get(chat)?.messages ?? [];
    const [questionId, answerId] = [`${before.length + 1}`, `${before.length + 2}`];
    const parent = before.length > 0 ? { parent: `${before.length}` } : {};
    const user = { ...base, ...parent, id: questionId, role: "user", content: question.content, state: "complete", versions: [questionId] };
    const begun = { ...base, id: answerId, parent: questionId, role: "assistant", content: "", state: "answering", versions: [answerId] };
    const count = this.pieces.length;
    const usage = { prompt_tokens: 12, cached_tokens: 0, ram_tokens: 0, ssd_tokens: 0, remote_tokens: 0, restore_ms: 0, instead_of_ms: 0, load_ms: 0, prompt_ms: 0, first_token_ms: 5, answer_tokens: count, answer_ns: (count * 1e9) / this.perSecond, total_ms: (count * 1e3) / this.perSecond, length_reached: false };
    const line = (value) => answer.write(`${JSON.stringify(value)}\n`);
    answer.socket.setNoDelay(true);
    answer.writeHead(200, { "content-type": "application/x-ndjson" });
    line({ user });
    line({ answer: begun });
    const steps = await this.#steps(line);
    const { pieces, perSecond } = this;
    const start = performance.now();
    let sent = 0;
    const timer = setInterval(() => {
      const due = Math.min(pieces.length, Math.floor(((performance.now() - start) / 1000) * perSecond));
      while (sent < due) line({ text: pieces[sent++] });
      if (sent < pieces.length) return;
      clearInterval(timer);
      const done = { ...begun, ...steps, content: pieces.join(""), state: "complete", usage };
      this.#chats.set(chat, { messages: [...before, user, done], before: 0, total: before.length + 2 });
      line({ done });
      answer.end();
    }, TICK_MS);
    answer.on("close", () => clearInterval(timer));
    this.#cut = () => {
      const broken = { ...begun, content: pieces.slice(0, sent).join(""), state: "interrupted" };
      this.#chats.set(chat, { messages: [...before, user, broken], before: 0, total: before.length + 2 });
      answer.destroy();
    };
  }
}

async function body(asked) {
  const parts = [];
  for await (const part of asked) parts.push(part);
  return JSON.parse(Buffer.concat(parts).toString());
}

function json(answer, value) {
  answer.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(value));
}
