// `/app/mirror`: this computer as a source of models for others, and others as sources for this one.
import { get, post } from "./client";
import type { InviteResponse, MirrorResponse } from "./types";

export const mirror = {
  now: () => get<MirrorResponse>("/app/mirror"),
  /** Creates a one-time code with which another computer can join. */
  invite: () => post<InviteResponse>("/app/mirror/invite"),
  join: (address: string, code: string) => post<MirrorResponse>("/app/mirror/join", { address, code }),
};

export type MirrorApi = typeof mirror;
export type { FoundMachine, InviteResponse, MirrorResponse } from "./types";
