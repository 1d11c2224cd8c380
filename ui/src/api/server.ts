// `/app/server`: addresses, clients and recent requests; and `/app/log`.
import { get } from "./client";
import { live } from "./live.svelte";
import type { LogResponse, ServerResponse } from "./types";

/** The server status, whenever it changes. */
export const serverStatus = () => live<ServerResponse>("/app/server/events");

/** The end of the daemon's log. */
export const log = (): Promise<LogResponse> => get<LogResponse>("/app/log?lines=500");
