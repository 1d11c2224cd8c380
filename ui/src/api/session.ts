// The session of this page with the daemon. In the window, the platform has the token. In a browser, the address carries a
// one-time ticket (`#t=...`), which is exchanged for a token that is valid as long as the tab.
import { platform, type ServerInfo } from "../platform";

const KEY = "cairn.session";

/** Splits an address's fragment into the ticket and the rest. */
export function takeTicket(hash: string): { ticket?: string; rest: string } {
  const found = /^#\/?t=([A-Za-z0-9_-]+)(?:&(.*))?$/.exec(hash);
  if (found === null) return { rest: hash };
  return { ticket: found[1], rest: found[2] ? `#${found[2]}` : "" };
}

function stored(): string | undefined {
  try {
    return sessionStorage.getItem(KEY) ?? undefined;
  } catch {
    return undefined;
  }
}

function store(token: string): void {
  try {
    sessionStorage.setItem(KEY, token);
  } catch {
    // Without storage, the token is lost when the page reloads.
  }
}

async function open(): Promise<ServerInfo> {
  const info = await platform.server();
  if (info.token !== undefined) return info;
  const { ticket, rest } = takeTicket(location.hash);
  if (ticket === undefined) return { ...info, token: stored() };
  // The ticket is removed from the address at once, so that it is not bookmarked or shared.
  history.replaceState(null, "", location.pathname + location.search + rest);
  const response = await fetch(`${info.address}/app/session`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ ticket }),
    credentials: "same-origin",
  });
  // A used or expired ticket does not end a session that this tab already has.
  if (!response.ok) return { ...info, token: stored() };
  const { token } = (await response.json()) as { token: string };
  store(token);
  return { ...info, token };
}

let opened: Promise<ServerInfo> | undefined;

/** The daemon's address and token; requested once. */
export function session(): Promise<ServerInfo> {
  opened ??= open().catch((error: unknown) => {
    opened = undefined;
    throw error;
  });
  return opened;
}

const listeners = new Set<() => void>();

/** Calls back after each renewal of the session, until the returned function is called. */
export function onRenewed(listener: () => void): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

/** Exchanges the ticket of a new address in this tab. Requests that were refused can then be sent again. */
export async function renew(): Promise<void> {
  opened = undefined;
  await session();
  for (const listener of listeners) listener();
}

/** Forgets the session, so that the next request asks again: the daemon may have restarted at another address. */
export function reopen(): void {
  opened = undefined;
}
