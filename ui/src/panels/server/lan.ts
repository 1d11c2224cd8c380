// Where the server listens, as one switch: this computer, or all that reach it.
import type { Setting } from "../../api/types";

const LOOPBACK = /^(?:127(?:\.\d{1,3}){3}|localhost|::1)$/i;
const DEFAULT_PORT = "11434";
const HERE = "127.0.0.1";
const EVERYWHERE = "0.0.0.0";

/** Host and port of an address such as `127.0.0.1:11434`, `[::1]:80`, `nas` or `http://0.0.0.0`. */
export function parts(address: string): { host: string; port: string } {
  const bare = address.trim().replace(/^\w+:\/\//, "").replace(/\/.*$/, "");
  const inside = /^\[([^\]]*)\](?::(\d+))?$/.exec(bare);
  if (inside) return { host: inside[1] ?? "", port: inside[2] ?? DEFAULT_PORT };
  // More than one colon and no brackets is an IPv6 address alone.
  if (bare.split(":").length > 2) return { host: bare, port: DEFAULT_PORT };
  const [host = "", port] = bare.split(":");
  return { host, port: port && /^\d+$/.test(port) ? port : DEFAULT_PORT };
}

/** Whether other computers reach a server that listens there. */
export function reaches(address: string): boolean {
  const { host } = parts(address);
  return host !== "" && !LOOPBACK.test(host);
}

/** The address for the switch's other side, with the same port. */
export function listening(address: string, lan: boolean): string {
  return `${lan ? EVERYWHERE : HERE}:${parts(address).port}`;
}

/** What the switch shows, and whether that waits for a restart. */
export function wanted(setting: Setting | undefined, now: boolean): { on: boolean; waits: boolean } {
  const on = typeof setting?.value === "string" ? reaches(setting.value) : now;
  return { on, waits: on !== now };
}
