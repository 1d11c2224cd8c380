// All tests in a real browser against a real daemon: `npm run e2e`, or some of them: `npm run e2e -- xss looks`.
import { launch } from "./browser.mjs";
import { Daemon } from "./daemon.mjs";
import { journey } from "./journey.mjs";
import { looks } from "./looks.mjs";
import { xss } from "./xss.mjs";

const ALL = { journey, xss, looks };
const wanted = process.argv.slice(2);
const browser = await launch();
let failed = 0;
for (const [name, run] of Object.entries(ALL)) {
  if (wanted.length > 0 && !wanted.includes(name)) continue;
  const daemon = await Daemon.start();
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
