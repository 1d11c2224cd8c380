// `/app/hardware`: what this computer has, and what Cairn uses of it.
import { get } from "./client";
import { live } from "./live.svelte";
import type { HardwareResponse } from "./types";

/** The hardware status, every two seconds. */
export const hardwareStatus = () => live<HardwareResponse>("/app/hardware/events");

/** Memory of this computer, in bytes. */
export interface Room {
  totalBytes: number;
  availableBytes: number;
  /** Whether Cairn computes on a GPU. */
  hasGpu?: boolean;
}

export function roomOf({ memory, gpus }: HardwareResponse): Room {
  return {
    totalBytes: memory.limit_bytes ?? memory.total_bytes,
    availableBytes: memory.available_bytes,
    hasGpu: (gpus ?? []).some((gpu) => gpu.used),
  };
}

/** The rest of the memory is for the context and for other apps. */
const DEFAULT_SHARE = 0.75;
/** On a processor larger models answer too slowly to be a good default. */
const MAX_DEFAULT_BYTES_WITHOUT_GPU = 8e9;

/** Size of the largest file that is preselected. It depends on the total memory, not on what is free at the moment. */
export function maxDefaultBytes(room: Room | undefined): number {
  const byMemory = room ? room.totalBytes * DEFAULT_SHARE : Infinity;
  return room?.hasGpu ? byMemory : Math.min(byMemory, MAX_DEFAULT_BYTES_WITHOUT_GPU);
}

export const hardware = { now: () => get<HardwareResponse>("/app/hardware") };
