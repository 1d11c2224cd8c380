// Texts of settings, by the daemon's keys. A setting without a translation shows the daemon's English text.
import type { Setting } from "../api/types";
import type { SettingWords } from "../components";
import { bytes } from "./format";
import { has, number, t } from "./locale.svelte";

const key = (setting: Setting) => `settings.of_${setting.key.replaceAll(".", "_")}`;

export function settingLabel(setting: Setting): string {
  return has(key(setting)) ? t(key(setting)) : setting.key;
}

export function settingAbout(setting: Setting): string {
  return has(`${key(setting)}_about`) ? t(`${key(setting)}_about`) : setting.about;
}

/** Label of a choice. */
export function choiceLabel(setting: Setting, value: string): string {
  const named = `${key(setting)}_is_${value.replaceAll(/[^a-z0-9]/gi, "_")}`;
  return has(named) ? t(named) : value;
}

/** The default, as the placeholder of an empty field. */
export function defaultLabel(setting: Setting): string {
  const { default: value, kind, default_about } = setting;
  const named = `${key(setting)}_default`;
  if (has(named)) return t(named);
  if (kind === "bytes" && typeof value === "number") return bytes(value);
  if (kind === "choice" && typeof value === "string") return choiceLabel(setting, value);
  if (typeof value === "number") return number(value);
  if (typeof value === "string" && value !== "") return value;
  return default_about;
}

/** Notes on who set it, and on a pending restart. */
export function settingNotes(setting: Setting): { text: string; title: string }[] {
  const notes: { text: string; title: string }[] = [];
  if (setting.origin === "environment" || setting.origin === "flag") {
    const name = setting.origin_name ?? "";
    notes.push({ text: name, title: t(`settings.set_by_${setting.origin}`, { name }) });
  } else if (setting.origin === "file") notes.push({ text: t("settings.changed"), title: t("settings.set_by_file") });
  if (setting.restart) notes.push({ text: t("settings.waits"), title: t("settings.waits_about") });
  return notes;
}

/** When a change applies, unless at once. */
export function settingApplies(setting: Setting): string | undefined {
  return setting.applies === "now" ? undefined : t(`settings.applies_${setting.applies}`);
}

/** Units of durations by the daemon's keys, and the value without an end. Go's format, which some use, has no days. */
const DURATIONS: Readonly<Record<string, { units: readonly string[]; endless?: string }>> = {
  "engine.keep_alive": { units: ["s", "m", "h"], endless: "-1" },
  "cache.ttl": { units: ["h", "d"], endless: "never" },
  "downloads.stall": { units: ["s", "m"] },
};

/** Texts of a duration; `undefined` for other settings. */
export function durationWords(setting: Setting): SettingWords["duration"] {
  const format = DURATIONS[setting.key];
  if (format === undefined || setting.unit !== "duration") return undefined;
  return {
    label: t("settings.duration_of", { name: settingLabel(setting) }),
    units: format.units.map((value) => ({ value, label: t(`settings.duration_${value}`) })),
    endless: format.endless === undefined ? undefined : { value: format.endless, label: t("settings.duration_endless") },
  };
}

/** All texts of a settings row. */
export function settingWords(setting: Setting, locked: boolean): SettingWords {
  const unit = setting.unit ? `settings.unit_${setting.unit}` : "";
  return {
    label: settingLabel(setting),
    about: settingAbout(setting),
    notes: settingNotes(setting),
    applies: settingApplies(setting),
    placeholder: defaultLabel(setting),
    reset: t("settings.reset", { name: settingLabel(setting), value: defaultLabel(setting) }),
    locked: locked ? t(`settings.set_by_${setting.origin}`, { name: setting.origin_name ?? "" }) : undefined,
    noBytes: t("settings.no_bytes"),
    unit: has(unit) ? t(unit) : undefined,
    duration: durationWords(setting),
    choices: (setting.choices ?? []).map((value) => ({ value, label: choiceLabel(setting, value) })),
  };
}
