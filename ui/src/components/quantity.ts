// Numbers as people type them. Sizes are "4 GB", "512M" or "0", in powers of 1,000.

const UNITS: Record<string, number> = { "": 1, k: 1e3, m: 1e6, g: 1e9, t: 1e12 };

/** Parses a size in bytes; `undefined` if it is none. "GiB" counts in powers of 1,024. */
export function readBytes(text: string): number | undefined {
  const found = /^([\d.,\s]*\d)\s*([kmgt]?)(i?)b?$/i.exec(text.trim());
  if (!found) return undefined;
  const digits = (found[1] ?? "").replace(/\s/g, "");
  // A single comma that is not before three digits is a decimal comma.
  const plain = /^\d+,\d{1,2}$/.test(digits) ? digits.replace(",", ".") : digits.replace(/,(?=\d{3}\b)/g, "");
  const value = Number(plain);
  const unit = (found[2] ?? "").toLowerCase();
  const step = found[3] && unit ? 1024 ** (["", "k", "m", "g", "t"].indexOf(unit)) : UNITS[unit];
  if (!Number.isFinite(value) || step === undefined) return undefined;
  return Math.round(value * step);
}

/** Formats a size so that `readBytes` can parse it. */
export function writeBytes(bytes: number): string {
  const steps: [string, number][] = [["TB", 1e12], ["GB", 1e9], ["MB", 1e6], ["kB", 1e3]];
  const [unit, step] = steps.find(([, size]) => bytes >= size) ?? ["B", 1];
  const value = bytes / step;
  return `${Number(value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0))} ${unit}`;
}

/** Parses a number within its bounds; `undefined` if it is none. */
export function numberOf(text: string, { min, max, whole }: { min: number | undefined; max: number | undefined; whole: boolean }): number | undefined {
  const typed = Number(text);
  if (text.trim() === "" || Number.isNaN(typed)) return undefined;
  // Larger whole numbers are not exact.
  const [least, most] = whole ? [Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER] : [-Infinity, Infinity];
  return Math.min(max ?? most, Math.max(min ?? least, whole ? Math.round(typed) : typed));
}

/** A duration as settings write it: `5m`, `30d`. */
export interface Span {
  count: number;
  unit: string;
}

/** Parses a duration of one unit; `undefined` for others, such as `1h30m`. */
export function readSpan(text: string, units: readonly string[]): Span | undefined {
  const [, digits = "", unit = ""] = /^(\d{1,9})([smhd])$/.exec(text.trim()) ?? [];
  return units.includes(unit) ? { count: Number(digits), unit } : undefined;
}

export function writeSpan({ count, unit }: Span): string {
  return `${count}${unit}`;
}
