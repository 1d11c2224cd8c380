// What takes the memory: parts that add up to the whole, from counts that overlap.
import type { HardwareDisk, HardwareMemory } from "../../api/types";

export interface MemoryPart {
  id: "weights" | "kept" | "work" | "others" | "free";
  bytes: number;
  /** A role of `tokens.css`, without its dashes. */
  tone: string;
}

/** Parts of the memory, those of Cairn first. Parts that are not told apart are left out. */
export function memoryParts(memory: HardwareMemory): MemoryPart[] {
  const total = memory.limit_bytes ?? memory.total_bytes;
  const free = Math.min(memory.available_bytes, total);
  const taken = total - free;
  // Mapped weights may be counted as available, since the system can have them back: they go beside what is taken.
  const weights = Math.min(memory.ours_mapped_bytes ?? 0, total);
  const ours = Math.max(0, Math.min((memory.ours_bytes ?? 0) - weights, taken));
  const kept = Math.min(memory.kept_bytes, ours);
  const others = Math.max(0, taken - ours);
  const rest = Math.max(0, total - weights - ours - others);
  const parts: MemoryPart[] = [
    { id: "weights", bytes: weights, tone: "accent" },
    { id: "kept", bytes: kept, tone: "tier-ram" },
    { id: "work", bytes: ours - kept, tone: "text-2" },
    { id: "others", bytes: others, tone: "text-off" },
    { id: "free", bytes: rest, tone: "bg-selected" },
  ];
  return parts.filter((part) => part.bytes > 0);
}

/** How full a disk is, where the system says. */
export function diskParts(disk: HardwareDisk): { usedBytes: number; totalBytes: number } | undefined {
  if (disk.total_bytes === undefined || disk.free_bytes === undefined) return undefined;
  return { usedBytes: Math.max(0, disk.total_bytes - disk.free_bytes), totalBytes: disk.total_bytes };
}
