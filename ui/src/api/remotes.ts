// `/app/remotes`: other servers with models that the daemon serves.
import { get, post } from "./client";
import type { AddRemoteRequest, RemotesResponse } from "./types";

export const remotes = {
  list: () => get<RemotesResponse>("/app/remotes"),
  /** Adds a server that lists its models. Responses never have its key. */
  add: (request: AddRemoteRequest) => post<RemotesResponse>("/app/remotes", request),
  /** Checks one remote, or all, and returns when they responded or timed out. */
  check: (name?: string) => post<RemotesResponse>("/app/remotes/check", name === undefined ? {} : { name }),
  remove: (name: string) => post<RemotesResponse>("/app/remotes/remove", { name }),
};

export type RemotesApi = typeof remotes;
export type { AddRemoteRequest, Remote, RemoteState } from "./types";
