// Serious accessibility faults that axe finds in a page, and whether the page is wider than its window.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

export async function faults(page) {
  const wide = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth + 1);
  await page.evaluate(AXE);
  const found = await page.evaluate(async () => {
    const { violations } = await window.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa"] });
    const serious = violations.filter((one) => ["serious", "critical"].includes(one.impact));
    return serious.map((one) => `${one.id}: ${one.nodes.slice(0, 3).map((node) => node.target.join(" ")).join(", ")}`);
  });
  return wide ? ["wider than the window", ...found] : found;
}

/** Skipped levels of headings, and controls with an accessible name that lacks their visible words. */
export async function names(page) {
  await page.evaluate(AXE);
  return page.evaluate(async () => {
    const { violations } = await window.axe.run(document, { runOnly: { type: "rule", values: ["heading-order", "label-content-name-mismatch"] } });
    return violations.map((one) => `${one.id}: ${one.nodes.map((node) => node.html.slice(0, 90)).join(", ")}`);
  });
}
