// `/app/tools`: servers of tools, tools of this program, and permissions.
import { get, patch, post, put, remove } from "./client";
import type * as types from "./types";

const server = (name: string): string => `/app/tools/servers/${encodeURIComponent(name)}`;

export const toolsApi = {
  read: () => get<types.ToolsResponse>("/app/tools"),
  /** Changes the tools of this program. */
  change: (change: types.ToolsChange) => patch<types.ToolsResponse>("/app/tools", change),
  /** Adds a server. Responses never have its variables and headers. */
  add: (request: types.AddToolServerRequest) => post<types.ToolsResponse>("/app/tools/servers", request),
  /** Adds the servers of a text in the JSON of other apps. */
  importText: (text: string) => post<types.ImportToolsResponse>("/app/tools/import", { text }),
  enable: (name: string, enabled: boolean) => patch<types.ToolsResponse>(server(name), { enabled }),
  remove: (name: string) => remove<types.ToolsResponse>(server(name)),
  /** The tools of an origin, which is started for that. */
  list: (origin: string) => get<types.OriginTools>(`/app/tools/origins/${encodeURIComponent(origin)}`),
  permit: (origin: string, tool: string, permission: types.ToolPermission) => put<void>("/app/tools/permission", { origin, tool, permission }),
};

/** Origins of the tools of this program. */
export const WEB = "web";
export const FOLDER = "files-of-folder";

export type ToolsApi = typeof toolsApi;
export type { AddToolServerRequest, ListedTool, OmittedTool, OriginTools, ToolPermission, ToolServer, ToolsChange, ToolsResponse } from "./types";
