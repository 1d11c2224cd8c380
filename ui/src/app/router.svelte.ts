// Routes are in the address's fragment, `#/models/discover`, in the window and in browsers.
import { renew, takeTicket } from "../api/session";

function read(): string[] {
  if (typeof location === "undefined") return [];
  // A ticket precedes the route until it is exchanged.
  return parse(takeTicket(location.hash).rest);
}

/** The decoded parts of a fragment; a part that cannot be decoded stays as it is. */
export function parse(hash: string): string[] {
  return hash
    .replace(/^#\/?/, "")
    .split("/")
    .filter((part) => part !== "")
    .map((part) => {
      try {
        return decodeURIComponent(part);
      } catch {
        return part;
      }
    });
}

class Router {
  parts = $state.raw<string[]>(read());

  get panel(): string {
    return this.parts[0] ?? "chat";
  }

  get rest(): string[] {
    return this.parts.slice(1);
  }
}

export const router = new Router();

if (typeof window !== "undefined") {
  window.addEventListener("hashchange", () => {
    const { ticket, rest } = takeTicket(location.hash);
    if (ticket === undefined || rest !== "") router.parts = read();
    if (ticket === undefined) return;
    // An address of `cairn ui` in a tab that already shows the interface: the screen stays.
    void renew().then(() => replace(...router.parts), () => {});
  });
}

/** The address of a route: `href("chat", id)`. */
export function href(...parts: string[]): string {
  return `#/${parts.map(encodeURIComponent).join("/")}`;
}

export function navigate(...parts: string[]): void {
  const next = href(...parts);
  if (location.hash === next) return;
  location.hash = next;
}

/** Changes the address without a history entry, for a chat that has got its id. */
export function replace(...parts: string[]): void {
  history.replaceState(null, "", href(...parts));
  router.parts = read();
}
