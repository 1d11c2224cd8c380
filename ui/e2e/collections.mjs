// Collections of documents on their screen: created, filled, searched, renamed and deleted against a real daemon without an embedding
// model; states of embedding models are simulated. Pictures in all themes and sizes, for review.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { faults, names } from "./axe.mjs";
import { check, choose, open } from "./browser.mjs";
import { docx, pdf } from "./documents.mjs";
import { spoken, text } from "./words.mjs";

const OUT = join(import.meta.dirname, "out");
const WAIT = { timeout: 20_000 };
const REPORT = { name: "report.pdf", mimeType: "application/pdf", buffer: pdf(["The lamp is green", "The harbour opens at six"]) };
const FILES = [
  REPORT,
  { name: "notes.docx", mimeType: "application/octet-stream", buffer: docx(["Meeting notes", "Anna has the keys of the harbour office"]) },
  { name: "备份.md", mimeType: "text/markdown", buffer: Buffer.from("# 备份策略\n\n每天备份一次数据库，每周检查一次备份。\n") },
  { name: "a-rather-long-name-of-a-text-file-that-no-list-has-room-for-in-a-narrow-window.txt", mimeType: "text/plain", buffer: Buffer.from("Nothing about ships.\n".repeat(200)) },
  { name: "broken.docx", mimeType: "application/octet-stream", buffer: Buffer.from("PK\x03\x04 and nothing else", "latin1") },
  { name: "empty.txt", mimeType: "text/plain", buffer: Buffer.alloc(0) },
];

export async function collections(browser, daemon) {
  console.log("collections");
  mkdirSync(OUT, { recursive: true });
  const { page, noted, context } = await open(browser, daemon, { ready: ".app-rail" });
  const bad = [];
  const shoot = async (name) => {
    await page.waitForTimeout(250);
    await page.screenshot({ path: join(OUT, `collections-${name}-${spoken()}.png`) });
    bad.push(...[...(await faults(page)), ...(await names(page))].map((one) => `${name}: ${one}`));
  };
  try {
    const id = await creates(page, daemon, shoot);
    await adds(page, daemon, id, shoot);
    await searches(page, shoot);
    await changes(page, daemon, id, shoot);
    await states(page, daemon, id, shoot);
    await deletes(page, daemon, id, shoot);
    for (const one of new Set(bad)) console.log(`  ${one}`);
    check(bad.length === 0, "no serious accessibility or layout fault");
    const errors = noted.errors.filter((one) => !/40\d|42\d|50\d/.test(one));
    check(errors.length === 0, `no error in the console ${errors.join(" | ").slice(0, 300)}`);
    check(noted.foreign.length === 0, "no request to another host");
  } finally {
    await context.close();
  }
}

const dialog = (page) => page.locator("dialog[open]");
const row = (page, name) => page.locator("main li", { has: page.locator(".name", { hasText: name }) });
/** Waits until a state of the daemon has a property. */
async function until(page, read, is, what) {
  for (let tries = 0; tries < 200; tries += 1) {
    if (is(await read())) return check(true, what);
    await page.waitForTimeout(50);
  }
  throw new Error(what);
}

async function creates(page, daemon, shoot) {
  await page.keyboard.press("Control+3");
  await page.waitForFunction(() => location.hash === "#/documents");
  await page.waitForSelector(".empty");
  check((await page.textContent(".empty")).includes(text("documents.about")), "the empty screen explains collections in a sentence");
  check((await page.locator(".empty button").count()) === 1, "with one button");
  await shoot("none");

  await page.click(".empty button");
  await dialog(page).locator("input:focus").waitFor();
  await dialog(page).locator(".notice", { hasText: text("documents.no_models") }).waitFor(WAIT);
  check(await dialog(page).locator("footer .primary").isDisabled(), "a collection needs a name");
  check((await dialog(page).locator("select").inputValue()) === "", "without an embedding model, searches use words only");
  await shoot("create");
  await page.keyboard.type("Harbour <b>papers</b>");
  await page.keyboard.press("Enter");
  await dialog(page).waitFor({ state: "detached", ...WAIT });
  await page.waitForFunction(() => /^#\/documents\/\w+$/.test(location.hash));
  const { collections } = await daemon.app("GET", "/app/collections");
  check(collections.length === 1 && collections[0].model === undefined, "the collection is created and opened");
  await page.locator("h1", { hasText: "Harbour <b>papers</b>" }).waitFor(WAIT);
  check((await page.locator("h1 b").count()) === 0, "its name is plain text");
  await page.waitForSelector(".empty");
  await shoot("empty");
  return collections[0].id;
}

async function adds(page, daemon, id, shoot) {
  const stored = async () => (await daemon.app("GET", `/app/collections/${id}`)).documents;
  const files = page.locator("main input[type=file]:not([webkitdirectory])");
  await files.setInputFiles(FILES);
  for (const { name } of FILES.slice(0, 4)) await row(page, name).and(page.locator("[data-state=ready]")).waitFor(WAIT);
  check(true, "documents are read while the page is open");
  const report = await row(page, "report.pdf").textContent();
  check(report.includes("PDF") && /2/.test(report) && report.includes(text("documents.pages")), `a row has format and pages: ${report.replace(/\s+/g, " ").trim()}`);
  const broken = row(page, "broken.docx");
  await broken.and(page.locator("[data-state=failed]")).waitFor(WAIT);
  check((await broken.textContent()).includes(text("errors.document_damaged")), "a damaged document has its reason in its row");
  check((await broken.locator("button").count()) === 1 && (await broken.locator("button").textContent()).trim() === text("documents.remove"), "with one button, which removes it");
  check((await row(page, "empty.txt").textContent()).includes(text("errors.document_empty")), "a file that is not sent has its reason, too");
  await page.locator("[role=status].sr", { hasText: text("documents.announce_added") }).waitFor({ state: "attached", ...WAIT });
  check(true, "the end is announced");
  await shoot("filled");

  await row(page, "empty.txt").locator(`button[aria-label*='${text("documents.leave_out")}']`).click();
  await row(page, "empty.txt").waitFor({ state: "detached" });
  await broken.locator("button").click();
  await broken.waitFor({ state: "detached" });
  await page.locator(".toast button", { hasText: text("common.undo") }).click();
  await broken.waitFor();
  check((await stored()).length === 5, "a removed document can be restored");
  await broken.locator("button").click();
  await broken.waitFor({ state: "detached" });
  check((await page.evaluate(() => document.activeElement?.tagName)) === "H2", "the focus stays in the list");
  await page.goto(`${daemon.address}/ui/#/documents`);
  await until(page, stored, (documents) => documents.length === 4, "a document is removed after the screen was left");
  const card = page.locator("li.card a");
  await card.waitFor(WAIT);
  await page.locator("li.card", { hasText: text("documents.short_no_model") }).waitFor(WAIT);
  await shoot("list");
  await card.focus();
  await page.keyboard.press("Enter");
  await row(page, "report.pdf").waitFor(WAIT);
  check(true, "a card opens its collection");

  await files.setInputFiles([{ ...REPORT, name: "copy.pdf" }]);
  await page.locator(".toast", { hasText: text("documents.announce_same") }).waitFor(WAIT);
  check((await stored()).length === 4, "a file that the collection has already is not added again");

  const folder = join(daemon.home, "papers");
  mkdirSync(join(folder, "old"), { recursive: true });
  mkdirSync(join(folder, ".git"), { recursive: true });
  for (const [name, contents] of [["index.html", "<h1>Tides</h1><p>High water at noon</p>"], ["old/ships.csv", "name,berth\nAurora,7\n"], ["photo.jpg", "no"], [".git/config.txt", "no"]]) writeFileSync(join(folder, name), contents);
  await page.locator("main input[webkitdirectory]").setInputFiles(folder);
  await row(page, "old/ships.csv").and(page.locator("[data-state=ready]")).waitFor(WAIT);
  await row(page, "index.html").and(page.locator("[data-state=ready]")).waitFor(WAIT);
  await page.locator(".toast", { hasText: text("documents.skipped") }).waitFor(WAIT);
  check((await stored()).length === 6, "the readable files of a folder are added");

  await page.evaluate(() => {
    const data = new DataTransfer();
    data.items.add(new File(["The ferry leaves at nine."], "ferry.txt"));
    const target = document.querySelector("main");
    target.dispatchEvent(new DragEvent("dragover", { dataTransfer: data, bubbles: true, cancelable: true }));
    window.dropped = () => target.dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
  });
  await page.waitForSelector(".drop");
  await shoot("drop");
  await page.evaluate(() => window.dropped());
  await row(page, "ferry.txt").and(page.locator("[data-state=ready]")).waitFor(WAIT);
  check((await page.locator(".drop").count()) === 0, "files can be dropped on the screen");
  check((await page.locator(".toast", { hasText: text("documents.announce_same") }).count()) <= 1, "new files are not reported as copies");
}

async function searches(page, shoot) {
  const field = page.locator("form[role=search] input");
  const search = async (query) => {
    await field.fill(query);
    await field.press("Enter");
  };
  await search("When did the harbour open?");
  const hit = page.locator("main ol li").first();
  await hit.waitFor(WAIT);
  const first = await hit.textContent();
  check(first.includes("report.pdf") && first.includes("2") && first.includes(text("documents.by_words")), `a hit has its document, its page and how it was found: ${first.replace(/\s+/g, " ").slice(0, 90)}`);
  check((await hit.locator("mark").allTextContents()).join() === "harbour,opens", "words of the query are marked in all their forms");
  await page.locator("form[role=search] + .result", { hasText: text("documents.only_no_model") }).waitFor();
  check(true, "and why it used words only");
  await shoot("search");
  await search("备份策略");
  await page.locator("main ol mark", { hasText: "备份策略" }).waitFor(WAIT);
  check((await page.locator("main ol li").first().textContent()).includes("备份.md"), "Chinese words are found and marked");
  await search("xylophone");
  await page.getByText(text("documents.search_none")).waitFor(WAIT);
  await field.press("Escape");
  check((await field.inputValue()) === "" && (await page.locator("main ol").count()) === 0, "Esc clears the search");
}

async function changes(page, daemon, id, shoot) {
  await page.locator("header [aria-haspopup=menu]").click();
  await page.locator(".menu .menu-item").first().waitFor();
  await shoot("menu");
  await page.locator(".menu .menu-item").first().click();
  await dialog(page).locator("input:focus").waitFor();
  await page.keyboard.press("Control+a");
  await page.keyboard.type("Harbour papers");
  await page.keyboard.press("Enter");
  await page.locator("h1", { hasText: /^Harbour papers$/ }).waitFor(WAIT);
  check((await daemon.app("GET", `/app/collections/${id}`)).collection.name === "Harbour papers", "the collection is renamed");
  await page.reload();
  await row(page, "ferry.txt").waitFor(WAIT);
  check((await page.textContent("h1")) === "Harbour papers" && (await page.locator("main li[data-state=ready]").count()) === 7, "everything is there after the page has loaded again");
  for (const [theme, width, height] of [["dark", 1440, 900], ["contrast", 1440, 900], ["light", 400, 800], ["dark", 900, 600]]) {
    await page.setViewportSize({ width, height });
    await choose(daemon, { theme, language: spoken() });
    await page.reload();
    await row(page, "ferry.txt").waitFor(WAIT);
    await page.fill("form[role=search] input", "harbour");
    await page.keyboard.press("Enter");
    await page.locator("main ol li").first().waitFor(WAIT);
    await shoot(`${theme}-${width}`);
  }
  await page.setViewportSize({ width: 1440, height: 900 });
  await choose(daemon, { theme: "light", language: spoken() });
  await page.reload();
  await row(page, "ferry.txt").waitFor(WAIT);
}

/** Progress with an embedding model, which a test does not have: the page's requests are answered in place of the daemon. */
async function states(page, daemon, id, shoot) {
  const at = new Date().toISOString();
  const document = (name, status, more = {}) => ({ id: name, name, format: "pdf", pages: 12, bytes: 340_000, added_at: at, chunks: 40, unreadable_chunks: 0, status, ...more });
  const failure = { error: "reading took too long", code: "document_timeout", params: { seconds: "60" } };
  let meaning = { state: "embedding", done: 40, total: 120 };
  let documents = [
    document("lease.pdf", { state: "ready" }),
    document("rules.pdf", { state: "embedding", done: 0, total: 40 }, { unreadable_chunks: 3 }),
    document("new.pdf", { state: "reading" }, { format: undefined, pages: undefined, chunks: 0 }),
    document("slow.pdf", { state: "failed", error: failure }, { chunks: 0 }),
    document("budget.xlsx", { state: "embedding", done: 30, total: 40 }, { format: "xlsx", pages: 1 }),
    document("talk.pptx", { state: "ready" }, { format: "pptx", pages: 30 }),
  ];
  let unreadable = 3;
  const collection = () => ({ id, name: "Harbour papers", created_at: at, model: "all-minilm:latest", documents: documents.length, chunks: 120, unreadable_chunks: unreadable, meaning });
  const path = `${daemon.address}/app/collections/${id}`;
  await page.route(path, (route) => (route.request().method() === "GET" ? route.fulfill({ json: { collection: collection(), documents } }) : route.continue()));
  const line = page.locator("main .notice").first();
  const shows = async (key, what) => {
    await line.filter({ hasText: text(key) }).waitFor(WAIT);
    check(true, what);
  };
  await page.reload();
  await shows("documents.meaning_embedding", "the progress of vectors is shown");
  check((await line.locator("[role=progressbar]").getAttribute("aria-valuenow")) === "40", "with a bar");
  check((await line.textContent()).includes(text("documents.unreadable")), "and passages that the model cannot read are explained");
  check((await row(page, "slow.pdf").textContent()).includes(text("errors.document_timeout")), "a failed document shows the sentence of its error");
  await shoot("states");
  await page.setViewportSize({ width: 400, height: 800 });
  await shoot("states-400");
  await page.setViewportSize({ width: 1440, height: 900 });

  meaning = { state: "embedding", done: 118, total: 120 };
  await page.waitForFunction(() => document.querySelector("main .notice [role=progressbar]")?.getAttribute("aria-valuenow") === "118", undefined, WAIT);
  check(true, "progress appears without a reload");
  meaning = { state: "ready" };
  unreadable = 0;
  documents = documents.slice(0, 1);
  await shows("documents.meaning_ready", "then searches use words and meaning");
  await page.locator("[role=status].sr", { hasText: text("documents.announce_ready") }).waitFor({ state: "attached", ...WAIT });
  check(true, "which is announced");

  await page.locator("header [aria-haspopup=menu]").click();
  await page.locator(".menu .menu-item").first().click();
  const select = dialog(page).locator("select");
  check((await select.inputValue()) === "all-minilm:latest", "a model that is not installed stays chosen");
  await select.selectOption("");
  check((await dialog(page).textContent()).includes(text("documents.words_only_about")), "words only is explained");
  await page.keyboard.press("Escape");
  await dialog(page).waitFor({ state: "detached" });

  meaning = { state: "failed", error: { error: "not enough memory", code: "model_too_large", params: { model: "all-minilm:latest", need_bytes: "46000000", free_bytes: "12000000" } } };
  await page.reload();
  await shows("documents.meaning_failed", "a failed model is reported");
  await shoot("model-failed");
  meaning = { state: "model_missing" };
  await page.reload();
  await shows("documents.meaning_model_missing", "a missing model is reported");
  await shoot("model-missing");
  await line.locator("button").click();
  await page.waitForFunction(() => location.hash === "#/models/discover/all-minilm%3Alatest");
  await page.locator(".pasted .name", { hasText: "all-minilm" }).waitFor(WAIT);
  check(true, "and can be downloaded");
  await page.unroute(path);
  await page.goto(`${daemon.address}/ui/#/documents/${id}`);
  await row(page, "ferry.txt").waitFor(WAIT);
}

async function deletes(page, daemon, id, shoot) {
  await page.locator("header [aria-haspopup=menu]").click();
  await page.locator(".menu .menu-item.danger").click();
  await dialog(page).waitFor();
  check((await dialog(page).textContent()).includes("7"), "the dialog counts the documents");
  await shoot("delete");
  await dialog(page).locator("button.danger").click();
  await page.waitForFunction(() => location.hash === "#/documents");
  await page.waitForSelector(".empty");
  check((await daemon.app("GET", "/app/collections")).collections.length === 0, "the collection is deleted");
  await page.goto(`${daemon.address}/ui/#/documents/${id}`);
  await page.locator(".error-card", { hasText: text("errors.collection_not_found") }).waitFor(WAIT);
  await page.locator(".error-card button", { hasText: text("documents.all") }).click();
  await page.waitForFunction(() => location.hash === "#/documents");
  check(true, "an address of a deleted collection leads back to the others");
  await page.keyboard.press("Control+k");
  await page.fill(".palette input", text("shell.documents"));
  await page.locator(".palette .menu-item", { hasText: text("shell.documents") }).first().waitFor();
  await page.keyboard.press("Escape");
  check(true, "the palette has the screen");
}
