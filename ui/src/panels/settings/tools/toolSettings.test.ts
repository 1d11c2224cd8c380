import { expect, it } from "vitest";
import { Tools } from "../../../api/tools.svelte";
import type { ListedTool, OriginTools, ToolsApi, ToolServer, ToolsResponse } from "../../../api/tools";
import { serverPlace, ToolSettings } from "./toolSettings.svelte";

const server = (name: string, part: Partial<ToolServer> = {}): ToolServer => ({ name, command: "node", enabled: true, running: false, ...part });
const tool = (name: string, permission: ListedTool["permission"] = "ask"): ListedTool => ({ name, description: "", arguments: {}, permission });

/** A daemon with tools in memory. */
function daemon(state: ToolsResponse = { servers: [server("files"), server("old", { enabled: false })], web: false, folder: null }) {
  const change = (next: Partial<ToolsResponse>): ToolsResponse => (state = { ...state, ...next });
  const api: ToolsApi = {
    read: async () => state,
    change: async (next) => change(next),
    add: async ({ name }) => change({ servers: [...state.servers, server(name)] }),
    importText: async () => ({ names: [], tools: state }),
    enable: async (name, enabled) => change({ servers: state.servers.map((one) => (one.name === name ? { ...one, enabled } : one)) }),
    remove: async (name) => change({ servers: state.servers.filter((one) => one.name !== name) }),
    list: async (origin) => {
      change({ servers: state.servers.map((one) => (one.name === origin ? { ...one, running: true } : one)) });
      return { tools: [tool("read"), tool("write")], omitted: [], omitted_count: 0 };
    },
    permit: async () => {},
  };
  const tools = new Tools(api);
  return { api, tools, settings: new ToolSettings(tools) };
}

it("tools are off by default, and origins follow the switches", async () => {
  const { tools, settings } = daemon();
  expect(tools.origins, "before the first response").toEqual([]);
  await settings.load();
  expect(tools.origins).toEqual(["files"]);
  await settings.setWeb(true);
  await settings.setFolder("/home/me/notes");
  await settings.enable("old", true);
  expect(tools.origins).toEqual(["web", "files-of-folder", "files", "old"]);
  await settings.setFolder(null);
  await settings.remove("files");
  expect(tools.origins).toEqual(["web", "old"]);
});

it("list of tools starts its server, and has the changed permissions", async () => {
  const { settings } = daemon();
  await settings.load();
  await settings.toggle("files");
  expect(settings.now?.servers[0]?.running, "the state is loaded again").toBe(true);
  expect(settings.listings.get("files")?.tools?.tools.map((one) => one.permission)).toEqual(["ask", "ask"]);
  await settings.permit("files", "write", "never");
  expect(settings.listings.get("files")?.tools?.tools.map((one) => one.permission)).toEqual(["ask", "never"]);
  await settings.toggle("files");
  expect(settings.listings.has("files")).toBe(false);
});

it("server that does not start shows its reason, and can be tried again", async () => {
  const { api, settings } = daemon();
  const { list } = api;
  api.list = async () => {
    throw new Error("it ended");
  };
  await settings.toggle("files");
  expect(String(settings.listings.get("files")?.error)).toBe("Error: it ended");
  api.list = list;
  await settings.list("files");
  expect([settings.listings.get("files")?.error, settings.listings.get("files")?.tools?.tools.length]).toEqual([undefined, 2]);
});

it("late list of a closed or removed origin is not shown", async () => {
  const { api, settings } = daemon();
  let answer: (tools: OriginTools) => void = () => {};
  api.list = () => new Promise((resolve) => (answer = resolve));
  const listed = settings.toggle("files");
  expect(settings.listings.get("files")?.busy).toBe(true);
  await settings.remove("files");
  answer({ tools: [], omitted: [], omitted_count: 0 });
  await listed;
  expect(settings.listings.has("files")).toBe(false);
});

it("refused change is shown at its place, and disappears with the next one", async () => {
  const { api, settings } = daemon();
  await settings.load();
  const { enable } = api;
  api.enable = async () => {
    throw new Error("boom");
  };
  expect(await settings.enable("files", false)).toBe(false);
  expect([...settings.problems.keys()]).toEqual([serverPlace("files")]);
  expect([settings.isBusy(serverPlace("files")), settings.now?.servers[0]?.enabled]).toEqual([false, true]);
  api.enable = enable;
  expect(await settings.enable("files", false)).toBe(true);
  expect(settings.problems.size).toBe(0);
});

it("late state does not replace that of a newer change", async () => {
  const { api, tools, settings } = daemon();
  await settings.load();
  let answer: (state: ToolsResponse) => void = () => {};
  api.read = () => new Promise((resolve) => (answer = resolve));
  const old = tools.now;
  const loaded = settings.load();
  await settings.setWeb(true);
  answer(old as ToolsResponse);
  await loaded;
  expect(settings.now?.web).toBe(true);
});
