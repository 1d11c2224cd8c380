// The servers and tools of the user, for the settings and the composer. The daemon does not push changes of these.
import { untrack } from "svelte";
import { FOLDER, toolsApi, WEB, type ToolsApi, type ToolsResponse } from "./tools";

export class Tools {
  /** The last response; `undefined` until the first one. */
  now = $state.raw<ToolsResponse | undefined>(undefined);

  constructor(readonly api: ToolsApi = toolsApi) {}

  /** Requests the state again. A change made meanwhile has a newer one. */
  async refresh(): Promise<void> {
    const before = untrack(() => this.now);
    const next = await this.api.read();
    if (untrack(() => this.now) === before) this.now = next;
  }

  /** Origins with tools that are offered to models. */
  get origins(): string[] {
    if (this.now === undefined) return [];
    const { servers, web, folder } = this.now;
    return [...(web ? [WEB] : []), ...(folder === null ? [] : [FOLDER]), ...servers.filter((server) => server.enabled).map((server) => server.name)];
  }
}

export const tools = new Tools();
