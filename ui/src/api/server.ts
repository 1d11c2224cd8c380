// `/app/server`: where the daemon is reached, by whom, and what was asked lately.
import { live } from "./live.svelte";
import type { ServerResponse } from "./types";

/** The server, now and whenever something changed. */
export const serverStatus = () => live<ServerResponse>("/app/server/events");
