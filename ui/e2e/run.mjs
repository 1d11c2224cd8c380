// All tests in a real browser against a real daemon: `npm run e2e`, or some of them: `npm run e2e -- xss looks`.
import { attach } from "./attach.mjs";
import { launch } from "./browser.mjs";
import { choices } from "./choices.mjs";
import { Daemon } from "./daemon.mjs";
import { journey } from "./journey.mjs";
import { leaving } from "./leaving.mjs";
import { looks } from "./looks.mjs";
import { first, panels } from "./panels.mjs";
import { prose } from "./prose.mjs";
import { restart } from "./restart.mjs";
import { scale } from "./scale.mjs";
import { sights } from "./sights.mjs";
import { stream } from "./stream.mjs";
import { told } from "./told.mjs";
import { windows } from "./windows.mjs";
import { xss } from "./xss.mjs";

const ALL = { journey, choices, attach, leaving, prose, xss, scale, stream, looks, sights, first, panels, told, windows, restart };
/** The one that begins before anybody was welcomed. */
const FRESH = ["first"];
const wanted = process.argv.slice(2);
const browser = await launch();
let failed = 0;
for (const [name, run] of Object.entries(ALL)) {
  if (wanted.length > 0 && !wanted.includes(name)) continue;
  const daemon = await Daemon.start(undefined, { welcomed: !FRESH.includes(name) });
  try {
    await run(browser, daemon);
  } catch (error) {
    failed += 1;
    console.error(`FAILED ${name}: ${error.stack ?? error}\n${daemon.log.slice(-1500)}`);
  } finally {
    await daemon.remove();
  }
}
await browser.close();
process.exit(failed === 0 ? 0 : 1);
