// Runs all end-to-end tests in a real browser against a real daemon: `npm run e2e`, or some of them: `npm run e2e -- xss looks`.
// `--every-language` runs all tests in all languages.
import { access } from "./access.mjs";
import { attach } from "./attach.mjs";
import { launch } from "./browser.mjs";
import { choices } from "./choices.mjs";
import { collections } from "./collections.mjs";
import { Daemon } from "./daemon.mjs";
import { documents } from "./documents.mjs";
import { edges } from "./edges.mjs";
import { errors } from "./errors.mjs";
import { journey } from "./journey.mjs";
import { leaving } from "./leaving.mjs";
import { looks } from "./looks.mjs";
import { messages } from "./messages.mjs";
import { first, panels } from "./panels.mjs";
import { previews } from "./previews.mjs";
import { prose } from "./prose.mjs";
import { firstDownload, NO_REGISTRY, regressions } from "./regressions.mjs";
import { remotes } from "./remotes.mjs";
import { restart } from "./restart.mjs";
import { scale } from "./scale.mjs";
import { sights } from "./sights.mjs";
import { sources } from "./sources.mjs";
import { stream } from "./stream.mjs";
import { tools } from "./tools.mjs";
import { windows } from "./windows.mjs";
import { LANGUAGES, speak } from "./words.mjs";
import { xss } from "./xss.mjs";

const ALL = { journey, choices, attach, documents, leaving, messages, prose, previews, xss, scale, stream, access, looks, sights, first, firstDownload, panels, remotes, tools, collections, sources, regressions, edges, errors, windows, restart };
/** Tests that begin with the first run. */
const FRESH = ["first", "firstDownload"];
/** Environment variables of a test's daemon. */
const ENV = { firstDownload: NO_REGISTRY };
/** Tests that select their languages themselves. */
const OWN_LANGUAGES = ["choices", "looks", "sights", "panels", "errors"];
/** Tests without texts of the interface, or with few: English is enough, unless all languages are requested. */
const ENGLISH_ONLY = ["leaving", "prose", "previews", "xss", "scale", "stream", "access", "windows", "restart", "first", "edges"];
const everyLanguage = process.argv.includes("--every-language");
const wanted = process.argv.slice(2).filter((name) => !name.startsWith("--"));
const browser = await launch();
let failed = 0;
const languagesOf = (name) => (OWN_LANGUAGES.includes(name) || (ENGLISH_ONLY.includes(name) && !everyLanguage) ? LANGUAGES.slice(0, 1) : LANGUAGES);
const runs = Object.entries(ALL).flatMap(([name, run]) => languagesOf(name).map((language) => ({ name, run, language })));
for (const { name, run, language } of runs) {
  if (wanted.length > 0 && !wanted.includes(name)) continue;
  speak(language);
  const daemon = await Daemon.start(undefined, { welcomed: !FRESH.includes(name), env: ENV[name] });
  try {
    await run(browser, daemon);
  } catch (error) {
    failed += 1;
    console.error(`FAILED ${name} (${language}): ${error.stack ?? error}\n${daemon.log.slice(-1500)}`);
  } finally {
    await daemon.remove();
  }
}
await browser.close();
process.exit(failed === 0 ? 0 : 1);
