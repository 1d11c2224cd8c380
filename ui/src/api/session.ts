// Who this page is towards the daemon. In the window the shell knows the token. In a browser the address carries a ticket
// once (`#t=...`), which is exchanged for a token that lives as long as the tab.
import { shell, type ServerInfo } from "../shell";

const KEY = "cairn.session";

/** The ticket in an address's fragment, and the fragment without it. */
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
    // Without storage the token lives until the page is loaded anew.
  }
}

async function open(): Promise<ServerInfo> {
  const info = await shell.server();
  if (info.token !== undefined) return info;
  const { ticket, rest } = takeTicket(location.hash);
  if (ticket === undefined) return { ...info, token: stored() };
  // The ticket leaves the address at once, so that it is neither bookmarked nor shared.
  history.replaceState(null, "", location.pathname + location.search + rest);
  const response = await fetch(`${info.address}/app/session`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ ticket }),
    credentials: "same-origin",
  });
  // A used or old ticket is no reason to forget a session that this tab already has.
  if (!response.ok) return { ...info, token: stored() };
  const { token } = (await response.json()) as { token: string };
  store(token);
  return { ...info, token };
}

let opened: Promise<ServerInfo> | undefined;

/** Where the daemon is and with which token; asked once. */
export function session(): Promise<ServerInfo> {
  opened ??= open().catch((error: unknown) => {
    opened = undefined;
    throw error;
  });
  return opened;
}

/** Forgets it, so that the next request asks again: the daemon was started anew, perhaps at another address. */
export function reopen(): void {
  opened = undefined;
}
