// The listen address as one switch: this computer only, or the network.
import type { Setting } from "../../api/types";

const LOOPBACK = /^(?:127(?:\.\d{1,3}){3}|localhost|::1)$/i;
const DEFAULT_PORT = "11434";
const HERE = "127.0.0.1";
const EVERYWHERE = "0.0.0.0";

/** Splits an address such as `127.0.0.1:11434`, `[::1]:80`, `nas` or `http://0.0.0.0` into host and port. */
export function parts(address: string): { host: string; port: string } {
  const bare = address.trim().replace(/^\w+:\/\//, "").replace(/\/.*$/, "");
  const inside = /^\[([^\]]*)\](?::(\d+))?$/.exec(bare);
  if (inside) return { host: inside[1] ?? "", port: inside[2] ?? DEFAULT_PORT };
  // More than one colon without brackets is a bare IPv6 address.
  if (bare.split(":").length > 2) return { host: bare, port: DEFAULT_PORT };
  const [host = "", port] = bare.split(":");
  return { host, port: port && /^\d+$/.test(port) ? port : DEFAULT_PORT };
}

/** Whether other computers can reach a server on that address. */
export function reaches(address: string): boolean {
  const { host } = parts(address);
  return host !== "" && !LOOPBACK.test(host);
}

/** The address for the other position of the switch, with the same port. */
export function listening(address: string, lan: boolean): string {
  return `${lan ? EVERYWHERE : HERE}:${parts(address).port}`;
}

/** Position of the switch, and whether it needs a restart to apply. */
export function wanted(setting: Setting | undefined, now: boolean): { on: boolean; waits: boolean } {
  const on = typeof setting?.value === "string" ? reaches(setting.value) : now;
  return { on, waits: on !== now };
}
