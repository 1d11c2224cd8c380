// Drawing of shortcuts: `⇧⌘F` on a Mac, `Ctrl+Shift+F` elsewhere.

export function isMac(platform: string = typeof navigator === "undefined" ? "" : navigator.platform): boolean {
  return /^(Mac|iP)/.test(platform);
}

const MAC: Record<string, string> = { mod: "⌘", shift: "⇧", alt: "⌥", enter: "⏎", escape: "Esc", up: "↑" };
const OTHER: Record<string, string> = { mod: "Ctrl", shift: "Shift", alt: "Alt", enter: "Enter", escape: "Esc", up: "↑" };
const ORDER = ["alt", "shift", "mod"];

export function keys(combo: string, mac: boolean = isMac()): string {
  const parts = combo.split("+");
  if (!mac) return parts.map((part) => OTHER[part] ?? part.toUpperCase()).join("+");
  const sorted = [...parts].sort((a, b) => rank(a) - rank(b));
  return sorted.map((part) => MAC[part] ?? part.toUpperCase()).join("");
}

function rank(part: string): number {
  const at = ORDER.indexOf(part);
  return at < 0 ? ORDER.length : at;
}
