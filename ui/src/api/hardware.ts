// `/app/hardware`: what this machine has, and what of it is used.
import { get } from "./client";
import { live } from "./live.svelte";
import type { HardwareResponse } from "./types";

/** The machine now, and every two seconds. */
export const hardwareStatus = () => live<HardwareResponse>("/app/hardware/events");

export const hardware = { now: () => get<HardwareResponse>("/app/hardware") };
