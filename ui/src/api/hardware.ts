// `/app/hardware`: what this computer has, and what Cairn uses of it.
import { get, post } from "./client";
import { live } from "./live.svelte";
import type { HardwareResponse, Speed } from "./types";

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
/** Without an estimate, larger models answer too slowly on a processor to be a good default. */
const MAX_DEFAULT_BYTES_WITHOUT_GPU = 8e9;
/** Slower answers are marked, and their models are no default: most people read faster. */
export const GOOD_TOKENS_PER_SECOND = 8;

/** Whether answers are slower than most people read. */
export function isSlow(speed: Speed | undefined): boolean {
  return speed !== undefined && speed.answer.tokens_per_second < GOOD_TOKENS_PER_SECOND;
}

/** Whether a variant may be preselected. That depends on its speed and the total memory, not on the free memory. */
export function isGoodDefault({ size, speed }: { size: number; speed?: Speed }, room: Room | undefined): boolean {
  if (room && size > room.totalBytes * DEFAULT_SHARE) return false;
  if (speed) return !isSlow(speed);
  return room?.hasGpu === true || size <= MAX_DEFAULT_BYTES_WITHOUT_GPU;
}

export const hardware = {
  now: () => get<HardwareResponse>("/app/hardware"),
  /** Measures the kernels, which takes some seconds. */
  measure: () => post<HardwareResponse>("/app/hardware/measure"),
};
