// Lines of the log by their level: `2026-01-01T00:00:00Z  WARN cairn_app: text`.

export const LEVELS = ["all", "warn", "error"] as const;
/** The least serious level that is shown. */
export type Level = (typeof LEVELS)[number];

export interface LogLine {
  level: Level;
  text: string;
}

function levelOf(text: string): Level | undefined {
  const word = /^\S+\s+(TRACE|DEBUG|INFO|WARN|ERROR)\b/.exec(text)?.[1];
  return word === undefined ? undefined : word === "ERROR" ? "error" : word === "WARN" ? "warn" : "all";
}

/** Lines of a level or a more serious one. A line without a level continues the one before it. */
export function linesFrom(lines: readonly string[], least: Level): LogLine[] {
  let level: Level = "all";
  const found = lines.map((text) => ({ level: (level = levelOf(text) ?? level), text }));
  return found.filter((line) => LEVELS.indexOf(line.level) >= LEVELS.indexOf(least));
}
