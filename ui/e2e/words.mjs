// Texts of the interface by key, in the language of the journey.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

const FOLDER = join(import.meta.dirname, "../src/i18n");

/** Languages that the interface has. */
export const LANGUAGES = ["en", "zh-CN"];
let language = LANGUAGES[0];

/** The language that `open` selects by default. */
export const spoken = () => language;

/** Sets the language of the following journeys. */
export function speak(wanted) {
  language = wanted;
}

/** The longest part of a text without placeholders. */
export function text(key) {
  const [file, name] = key.split(".");
  const found = JSON.parse(readFileSync(join(FOLDER, language, `${file}.json`), "utf8"))[name];
  if (found === undefined) throw new Error(`no text ${key} in ${readdirSync(join(FOLDER, language)).join(", ")}`);
  return found.split(/\{[^}]*\}/).reduce((longest, part) => (part.length > longest.length ? part : longest)).trim();
}
