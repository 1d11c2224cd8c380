// Entries of the palette besides recent chats: commands, screens, themes, languages, models and settings.
import { models as api } from "../api/models";
import { models } from "../api/models.svelte";
import type { Setting } from "../api/types";
import { has, LANGUAGES, t } from "../i18n";
import { settingAbout, settingLabel } from "../i18n/settings";
import { changeSetting } from "./changeSetting";
import { commands, COMMANDS } from "./commands.svelte";
import type { Entry } from "./palette";
import { PANELS } from "./panels";
import { navigate } from "./router.svelte";
import { shortcuts } from "./shortcuts.svelte";
import { theme, THEMES } from "./theme.svelte";
import { reportError } from "./reportError";

/** Rows of the settings with controls of their own, by section. */
const OWN_ROWS: Record<string, readonly string[]> = {
  appearance: ["theme", "text_size", "width", "language"],
  answers: ["send", "follow", "announce"],
  tools: ["tools_web", "tools_folder", "tools_servers"],
  shortcuts: ["shortcuts"],
};
/** Settings of the interface are in the rows above. */
const INTERFACE = "ui";

export interface Actions {
  run: (command: string) => void;
  chatWith: (model: string) => void;
}

/** Synonyms of an entry in the language of the interface. */
const synonyms = (id: string): string | undefined => (has(`shell.words_${id}`) ? t(`shell.words_${id}`) : undefined);

function commandEntries(run: Actions["run"]): Entry[] {
  return COMMANDS.filter((command) => !command.hidden && (!command.shown || commands.can(command.id))).map(({ id }) => ({
    id: `command ${id}`,
    group: "command",
    label: t(`shell.do_${id}`),
    words: synonyms(id),
    combo: shortcuts.of(id),
    run: () => run(id),
  }));
}

function choiceEntries(): Entry[] {
  const themes = THEMES.map((one) => ({ id: `theme ${one}`, group: "command", label: t("shell.theme_is", { theme: t(`shell.theme_${one}`) }), words: synonyms("theme"), run: () => theme.set(one) }));
  const languages = Object.entries(LANGUAGES).map(([id, name]) => ({ id: `language ${id}`, group: "command", label: t("shell.language_is", { language: name }), words: synonyms("language"), run: () => changeSetting({ language: id }) }));
  return [...themes, ...languages];
}

function modelEntries(chatWith: Actions["chatWith"]): Entry[] {
  const unload = (name: string): void => {
    api.unload(name).then(() => models.refreshLoaded(), (error: unknown) => reportError(error));
  };
  return models.installed.flatMap(({ name }) => [
    { id: `model ${name}`, group: "model", label: name, words: t("shell.details"), run: () => navigate("models", "installed", name) },
    { id: `chat ${name}`, group: "model", label: t("shell.chat_with", { model: name }), run: () => chatWith(name) },
    ...(models.isLoaded(name) ? [{ id: `unload ${name}`, group: "model", label: t("shell.unload", { model: name }), run: () => unload(name) }] : []),
  ]);
}

function settingEntries(settings: readonly Setting[]): Entry[] {
  const section = (id: string): string => (has(`settings.group_${id}`) ? t(`settings.group_${id}`) : has(`settings.${id}`) ? t(`settings.${id}`) : id);
  const entry = (id: string, group: string, label: string, about: string): Entry => ({
    id: `setting ${id}`,
    group: "setting",
    label,
    words: [t("settings.title"), section(group), about, id].join(" "),
    run: () => navigate("settings", group),
  });
  const own = Object.entries(OWN_ROWS).flatMap(([group, rows]) => rows.map((row) => entry(row, group, t(`settings.${row}`), has(`settings.${row}_about`) ? t(`settings.${row}_about`) : "")));
  const keys = new Set<string>();
  const rest = settings.filter(({ group, key }) => group !== INTERFACE && !keys.has(key) && keys.add(key));
  return [...own, ...rest.map((one) => entry([one.key, one.env].filter(Boolean).join(" "), one.group, settingLabel(one), settingAbout(one)))];
}

/** All entries except chats. Without a query, settings and models' actions would hide the others. */
export function entries(settings: readonly Setting[], actions: Actions): Entry[] {
  const screens = PANELS.map((panel) => ({ id: `go ${panel.id}`, group: "screen", label: t(panel.title), icon: panel.icon, combo: shortcuts.of(`go_${panel.id}`), run: () => navigate(panel.id) }));
  return [...commandEntries(actions.run), ...screens, ...choiceEntries(), ...modelEntries(actions.chatWith), ...settingEntries(settings)];
}
