// Numbers as people type them. Bytes are "4 GB", "512M", "0", in powers of 1,000 as they are shown everywhere.

const UNITS: Record<string, number> = { "": 1, k: 1e3, m: 1e6, g: 1e9, t: 1e12 };

/** Bytes of a text; undefined where it says no number of bytes. "GiB" counts in powers of 1,024. */
export function readBytes(text: string): number | undefined {
  const found = /^([\d.,\s]*\d)\s*([kmgt]?)(i?)b?$/i.exec(text.trim());
  if (!found) return undefined;
  const digits = (found[1] ?? "").replace(/\s/g, "");
  // A comma is a decimal one where it is the only mark and not before three digits.
  const plain = /^\d+,\d{1,2}$/.test(digits) ? digits.replace(",", ".") : digits.replace(/,(?=\d{3}\b)/g, "");
  const value = Number(plain);
  const unit = (found[2] ?? "").toLowerCase();
  const step = found[3] && unit ? 1024 ** (["", "k", "m", "g", "t"].indexOf(unit)) : UNITS[unit];
  if (!Number.isFinite(value) || step === undefined) return undefined;
  return Math.round(value * step);
}

/** Bytes as a text that `readBytes` reads. */
export function writeBytes(bytes: number): string {
  const steps: [string, number][] = [["TB", 1e12], ["GB", 1e9], ["MB", 1e6], ["kB", 1e3]];
  const [unit, step] = steps.find(([, size]) => bytes >= size) ?? ["B", 1];
  const value = bytes / step;
  return `${Number(value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0))} ${unit}`;
}

/** The number of a field, within what it may be; undefined where it says none. */
export function numberOf(text: string, { min, max, whole }: { min: number | undefined; max: number | undefined; whole: boolean }): number | undefined {
  const typed = Number(text);
  if (text.trim() === "" || Number.isNaN(typed)) return undefined;
  // Beyond these no whole number is sure to be the one that was meant.
  const [least, most] = whole ? [Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER] : [-Infinity, Infinity];
  return Math.min(max ?? most, Math.max(min ?? least, whole ? Math.round(typed) : typed));
}
