// A real daemon for the tests: `cairn serve` with its own home on a free port, and Pebble to answer.
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

const ROOT = resolve(import.meta.dirname, "../..");

/** The program under test: `CAIRN_BIN`, or the last build of cargo. */
export function program() {
  const target = process.env.CARGO_TARGET_DIR ?? join(ROOT, "target");
  const found = [process.env.CAIRN_BIN, join(target, "release/cairn"), join(target, "debug/cairn")].find((path) => path && existsSync(path));
  if (!found) throw new Error("no cairn to test: build it (cargo build -p cairn-cli) or name it in CAIRN_BIN");
  return found;
}

function freePort() {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

export class Daemon {
  /** With `welcomed` the first run is over; `env` adds environment variables. */
  static async start(home = mkdtempSync(join(tmpdir(), "cairn-ui-")), { welcomed = true, env = {} } = {}) {
    const daemon = new Daemon();
    daemon.home = home;
    daemon.port = await freePort();
    daemon.address = `http://127.0.0.1:${daemon.port}`;
    daemon.env = { ...process.env, CAIRN_HOME: home, OLLAMA_HOST: `127.0.0.1:${daemon.port}`, ...env };
    await daemon.run();
    if (welcomed) await daemon.app("PATCH", "/app/settings", { "ui.welcomed": true });
    return daemon;
  }

  async run() {
    this.process = spawn(program(), ["serve"], { env: this.env, stdio: ["ignore", "ignore", "pipe"] });
    this.log = "";
    this.process.stderr.on("data", (data) => (this.log = (this.log + data).slice(-20_000)));
    for (let tries = 0; tries < 200; tries += 1) {
      try {
        if ((await fetch(`${this.address}/api/version`)).ok) return;
      } catch {
        // Not listening yet.
      }
      if (this.process.exitCode !== null) break;
      await new Promise((wait) => setTimeout(wait, 50));
    }
    throw new Error(`the daemon did not start:\n${this.log}`);
  }

  /** A one-time address that opens the interface. */
  ticket() {
    const output = spawnSync(program(), ["ui", "--no-open"], { env: this.env, encoding: "utf8" });
    const url = output.stdout.trim();
    if (!url.includes("/ui/#t=")) throw new Error(`cairn ui printed no address: ${output.stdout}${output.stderr}`);
    return url;
  }

  /** A request to `/app` with its own session. */
  async app(method, path, body) {
    if (!this.token) {
      const ticket = new URL(this.ticket()).hash.replace("#t=", "");
      const answer = await fetch(`${this.address}/app/session`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ ticket }) });
      this.token = (await answer.json()).token;
    }
    const response = await fetch(this.address + path, {
      method,
      headers: { authorization: `Bearer ${this.token}`, ...(body ? { "content-type": "application/json" } : {}) },
      body: body ? JSON.stringify(body) : undefined,
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    return text === "" ? undefined : JSON.parse(text);
  }

  kill() {
    return this.end("SIGKILL");
  }

  end(signal = "SIGTERM") {
    this.token = undefined;
    if (this.process.exitCode !== null || this.process.signalCode !== null) return Promise.resolve();
    return new Promise((ended) => {
      this.process.once("exit", ended);
      this.process.kill(signal);
    });
  }

  async remove() {
    await this.end();
    rmSync(this.home, { recursive: true, force: true });
  }
}
