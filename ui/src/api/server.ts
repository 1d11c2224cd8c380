// `/app/server`: addresses, clients and recent requests.
import { live } from "./live.svelte";
import type { ServerResponse } from "./types";

/** The server status, whenever it changes. */
export const serverStatus = () => live<ServerResponse>("/app/server/events");
