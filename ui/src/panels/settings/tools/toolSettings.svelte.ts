// Tools in the settings: switches, the folder, servers, and the tools of each origin with their permissions.
import { SvelteMap } from "svelte/reactivity";
import { tools as shared, type Tools } from "../../../api/tools.svelte";
import type { OriginTools, ToolPermission, ToolsResponse } from "../../../api/tools";

/** Interval of the state: a chat starts servers, too, and one may end at any time. */
const REFRESH_MS = 5_000;

/** The tools of an origin that the user has opened. */
export interface OriginListing {
  busy: boolean;
  tools?: OriginTools;
  /** Why they could not be listed. */
  error?: unknown;
}

/** Places of actions and of their errors: `web`, `folder` or a server. */
export const serverPlace = (name: string): string => `server ${name}`;

export class ToolSettings {
  /** Why the state could not be loaded. */
  error = $state.raw<unknown>(undefined);
  /** Errors of the last actions, by place. */
  readonly problems = new SvelteMap<string, unknown>();
  /** Opened origins. */
  readonly listings = new SvelteMap<string, OriginListing>();
  readonly #busy = new SvelteMap<string, true>();

  constructor(private readonly tools: Tools = shared) {}

  get now(): ToolsResponse | undefined {
    return this.tools.now;
  }

  /** Loads the state, and again from time to time while the page is visible. Returns a function that ends this. */
  start(): () => void {
    void this.load();
    const timer = setInterval(() => document.hidden || void this.load(), REFRESH_MS);
    return () => clearInterval(timer);
  }

  async load(): Promise<void> {
    try {
      await this.tools.refresh();
      this.error = undefined;
    } catch (error) {
      this.error = error;
    }
  }

  isBusy(place: string): boolean {
    return this.#busy.has(place);
  }

  /** Takes the state after a change that another part has made. */
  take(next: ToolsResponse): void {
    this.tools.now = next;
  }

  setWeb(web: boolean): Promise<boolean> {
    return this.#change("web", () => this.tools.api.change({ web }));
  }

  /** Shares a folder, or none. */
  setFolder(folder: string | null): Promise<boolean> {
    return this.#change("folder", () => this.tools.api.change({ folder }));
  }

  async enable(name: string, enabled: boolean): Promise<boolean> {
    const done = await this.#change(serverPlace(name), () => this.tools.api.enable(name, enabled));
    if (done && !enabled) this.listings.delete(name);
    return done;
  }

  async remove(name: string): Promise<boolean> {
    const done = await this.#change(serverPlace(name), () => this.tools.api.remove(name));
    if (done) this.listings.delete(name);
    return done;
  }

  async #change(place: string, request: () => Promise<ToolsResponse>): Promise<boolean> {
    if (this.#busy.has(place)) return false;
    this.#busy.set(place, true);
    this.problems.delete(place);
    try {
      this.take(await request());
      return true;
    } catch (error) {
      this.problems.set(place, error);
      return false;
    } finally {
      this.#busy.delete(place);
    }
  }

  /** Opens or closes the list of an origin's tools. */
  async toggle(origin: string): Promise<void> {
    if (this.listings.delete(origin)) return;
    await this.list(origin);
  }

  /** Lists the tools of an origin. That starts a server, so that its state is loaded again. */
  async list(origin: string): Promise<void> {
    if (this.listings.get(origin)?.busy) return;
    const opened: OriginListing = { busy: true };
    this.listings.set(origin, opened);
    const listing = await this.tools.api.list(origin).then(
      (tools): OriginListing => ({ busy: false, tools }),
      (error: unknown): OriginListing => ({ busy: false, error }),
    );
    // The user may have closed it, or removed the server.
    if (this.listings.get(origin) === opened) this.listings.set(origin, listing);
    await this.load();
  }

  /** Sets the permission of a tool. Throws if the daemon refuses it. */
  async permit(origin: string, tool: string, permission: ToolPermission): Promise<void> {
    await this.tools.api.permit(origin, tool, permission);
    const listing = this.listings.get(origin);
    if (listing?.tools === undefined) return;
    const all = listing.tools.tools.map((one) => (one.name === tool ? { ...one, permission } : one));
    this.listings.set(origin, { ...listing, tools: { ...listing.tools, tools: all } });
  }
}
