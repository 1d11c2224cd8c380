// Use of the memory in parts that add up to the total, from counts that overlap.
import type { HardwareDisk, HardwareMemory } from "../../api/types";

export interface MemoryPart {
  id: "weights" | "kept" | "work" | "others" | "free";
  bytes: number;
  /** A role of `tokens.css` without its dashes. */
  tone: string;
}

/** Parts of the memory, those of Cairn first. Unknown parts are left out. */
export function memoryParts(memory: HardwareMemory): MemoryPart[] {
  const total = memory.limit_bytes ?? memory.total_bytes;
  const free = Math.min(memory.available_bytes, total);
  const usedBytes = total - free;
  // Mapped weights may count as available, because the system can reclaim them: they are shown beside the used memory.
  const weights = Math.min(memory.ours_mapped_bytes ?? 0, total);
  const ours = Math.max(0, Math.min((memory.ours_bytes ?? 0) - weights, usedBytes));
  const cachedBytes = Math.min(memory.kept_bytes, ours);
  const others = Math.max(0, usedBytes - ours);
  const rest = Math.max(0, total - weights - ours - others);
  const parts: MemoryPart[] = [
    { id: "weights", bytes: weights, tone: "accent" },
    { id: "kept", bytes: cachedBytes, tone: "tier-ram" },
    { id: "work", bytes: ours - cachedBytes, tone: "text-2" },
    { id: "others", bytes: others, tone: "text-off" },
    { id: "free", bytes: rest, tone: "bg-selected" },
  ];
  return parts.filter((part) => part.bytes > 0);
}

/** Used share of a disk, where known. */
export function diskParts(disk: HardwareDisk): { usedBytes: number; totalBytes: number } | undefined {
  if (disk.total_bytes === undefined || disk.free_bytes === undefined) return undefined;
  return { usedBytes: Math.max(0, disk.total_bytes - disk.free_bytes), totalBytes: disk.total_bytes };
}

/** A disk with the folders of Cairn on it. */
export interface Disk {
  folders: HardwareDisk[];
  parts: ReturnType<typeof diskParts>;
  freeBytes: number | undefined;
}

/** Folders by disk. Folders of one disk have the same total and free space, as far as the system reports them. */
export function byDisk(folders: readonly HardwareDisk[]): Disk[] {
  const disks = new Map<string, HardwareDisk[]>();
  for (const folder of folders) {
    const key = folder.total_bytes === undefined ? `${folder.holds} ${folder.path}` : `${folder.total_bytes} ${folder.free_bytes}`;
    disks.set(key, [...(disks.get(key) ?? []), folder]);
  }
  return [...disks.values()].flatMap((all) => (all[0] === undefined ? [] : [{ folders: all, parts: diskParts(all[0]), freeBytes: all[0].free_bytes }]));
}
