// The rules of the house for the interface, held against its source.
import { readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { describe, expect, it } from "vitest";

const SRC = join(import.meta.dirname, "..");

function files(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    return entry.isDirectory() ? files(path) : [relative(SRC, path)];
  });
}

const all = files(SRC);
const code = all.filter((path) => /\.(svelte|ts)$/.test(path) && !path.endsWith(".test.ts"));
const text = (path: string): string => readFileSync(join(SRC, path), "utf8");

/** What a file imports from within the source, as paths below it. */
function imports(path: string): string[] {
  const found = [...text(path).matchAll(/(?:from|import)\s*\(?\s*["'](\.[^"']+)["']/g)].map((match) => match[1] ?? "");
  return found.map((target) => relative(SRC, join(SRC, path, "..", target)));
}

/** Which imports a rule forbids, as `from -> to`. */
function broken(forbidden: (from: string, to: string) => boolean): string[] {
  return code.flatMap((from) => imports(from).filter((to) => forbidden(from, to)).map((to) => `${from} -> ${to}`));
}

const panelOf = (path: string): string | undefined => /^panels\/([^/]+)/.exec(path)?.[1] ?? (path.startsWith("chat/") || path === "chat" ? "chat" : undefined);

describe("tiers", () => {
  it("components know neither the server, nor words, nor screens", () => {
    expect(broken((from, to) => from.startsWith("components/") && !to.startsWith("components/"))).toEqual([]);
  });
  it("no screen knows another", () => {
    const between = broken((from, to) => panelOf(from) !== undefined && panelOf(to) !== undefined && panelOf(from) !== panelOf(to));
    expect(between).toEqual([]);
  });
  it("the client of the server knows no screen", () => {
    expect(broken((from, to) => from.startsWith("api/") && !/^(api|shell)(\/|$)/.test(to))).toEqual([]);
  });
  it("only the client fetches", () => {
    expect(code.filter((path) => !path.startsWith("api/") && /\bfetch\(|XMLHttpRequest|EventSource|WebSocket/.test(text(path)))).toEqual([]);
  });
  it("only the shell knows of the window", () => {
    expect(code.filter((path) => !path.startsWith("shell/") && /__TAURI|@tauri-apps/.test(text(path)))).toEqual([]);
  });
});

describe("panels", () => {
  it("each folder has a row, and each row a folder", () => {
    const folders = readdirSync(join(SRC, "panels")).filter((name) => name !== "first-run");
    const rows = [...text("app/panels.ts").matchAll(/import\("\.\.\/panels\/([^"]+)"\)/g)].map((match) => match[1]);
    expect(rows.toSorted()).toEqual(folders.toSorted());
  });
});

describe("size", () => {
  it("no component is longer than 250 lines", () => {
    expect(all.filter((path) => path.endsWith(".svelte") && text(path).split("\n").length > 250)).toEqual([]);
  });
});

describe("colours and styles", () => {
  it("only tokens.css holds colours", () => {
    const colour = /#[0-9a-f]{3,8}\b(?![^"']*["']?\))|\b(?:rgb|hsl|oklch|oklab|lab|lch)a?\(/i;
    const styled = all.filter((path) => /\.(css|svelte)$/.test(path) && path !== "styles/tokens.css");
    const found = styled.filter((path) => {
      const styles = path.endsWith(".css") ? text(path) : [...text(path).matchAll(/<style[\s\S]*?<\/style>|style(?::[\w-]+)?="[^"]*"|(?:fill|stroke)="#[^"]*"/g)].join("\n");
      return colour.test(styles);
    });
    expect(found).toEqual([]);
  });
  it("no element has a style attribute, which the page's policy forbids", () => {
    expect(all.filter((path) => path.endsWith(".svelte") && /\sstyle=/.test(text(path)))).toEqual([]);
  });
});

describe("words", () => {
  const words = (language: string): Record<string, string> =>
    Object.fromEntries(
      readdirSync(join(SRC, "i18n", language)).flatMap((file) => {
        const entries = JSON.parse(text(`i18n/${language}/${file}`)) as Record<string, string>;
        return Object.entries(entries).map(([name, value]) => [`${file.replace(".json", "")}.${name}`, value]);
      }),
    );
  const en = words("en");
  const zh = words("zh-CN");

  it("both languages have the same keys", () => {
    expect(Object.keys(zh).toSorted()).toEqual(Object.keys(en).toSorted());
  });
  it("both languages use the same values", () => {
    const names = (value: string): string[] => [...new Set([...value.matchAll(/\{(\w+)/g)].map((match) => match[1] ?? ""))].toSorted();
    expect(Object.keys(en).filter((key) => names(en[key] ?? "").join() !== names(zh[key] ?? "").join())).toEqual([]);
  });
  it("every key that is used exists", () => {
    const used = code.flatMap((path) => [...text(path).matchAll(/\bt\(\s*"([^"]+)"/g)].map((match) => `${path}: ${match[1]}`));
    expect(used.length).toBeGreaterThan(100);
    expect(used.filter((use) => !((use.split(": ")[1] ?? "") in en))).toEqual([]);
  });
  it("every key is used", () => {
    const source = code.map(text).join("\n");
    // A key that is put together needs a beginning of its own, or nothing could be said of it.
    const made = [...source.matchAll(/`([a-z-]+\.\w+)\$\{[^`]*`/g)].map((match) => match[1] ?? "");
    const unused = Object.keys(en).filter((key) => !source.includes(`"${key}"`) && !made.some((start) => key.startsWith(start)));
    expect(unused).toEqual([]);
  });
  it("templates have no words of their own", () => {
    const found = all
      .filter((path) => path.endsWith(".svelte"))
      .flatMap((path) => {
        const template = text(path)
          .replace(/<script[\s\S]*?<\/script>|<style[\s\S]*?<\/style>|<!--[\s\S]*?-->/g, "")
          .replace(/\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\}/g, "")
          .replace(/"[^"]*"/g, '""')
          .replace(/=>/g, "");
        return [...template.matchAll(/>([^<>]+)</g)].map((match) => (match[1] ?? "").trim()).filter((words) => /\p{L}{2,}/u.test(words) && words !== "kB").map((words) => `${path}: ${words}`);
      });
    expect(found).toEqual([]);
  });
});

describe("what the daemon says", () => {
  // Every literal of its source, with `{}` for what is put into one.
  const CRATES = join(SRC, "../../src-tauri/crates");
  const open = (text: string): string => text.replace(/\\\s*\n\s*/g, "").replace(/\\"/g, '"').replace(/\{\{/g, "\u0001").replace(/\{[^{}]*\}/g, "{}").replace(/\u0001/g, "{");
  const source = (crate: string): string[] =>
    readdirSync(join(CRATES, crate, "src"), { recursive: true, encoding: "utf8" })
      .filter((path) => path.endsWith(".rs"))
      .map((path) => readFileSync(join(CRATES, crate, "src", path), "utf8").replace(/^\s*\/\/.*$/gm, "").replace(/'"'|b'"'|'\\"'/g, ""));
  const strings = (code: string[], before = ""): string[] => code.flatMap((file) => [...file.matchAll(new RegExp(`${before}"((?:[^"\\\\]|\\\\[\\s\\S])*)"`, "g"))].map((match) => open(match[1] ?? "")));
  const zh = JSON.parse(text("i18n/told/zh-CN/daemon.json")) as Record<string, string>;

  it("is told in Chinese, whatever it fails with", () => {
    const met = ["app", "chats", "disk", "gguf", "kv", "models", "prompt", "registry", "runtime", "store", "tier", "tokenizer", "wire"];
    const errors = met.flatMap((crate) => strings(source(crate), "#\\[error\\(\\s*")).filter((sentence) => /[a-z]{3}/i.test(sentence.replaceAll("{}", "")));
    expect(errors.length).toBeGreaterThan(200);
    expect([...new Set(errors)].filter((sentence) => !(sentence in zh) && sentence !== "could not {} {}: {}")).toEqual([]);
  });
  it("is what the table says that it says", () => {
    const said = new Set(readdirSync(CRATES).flatMap((crate) => strings(source(crate))));
    // What could not be done to a file is put together.
    const step = (sentence: string): string => /^could not (.+) \{\}: \{\}$/.exec(sentence)?.[1] ?? sentence;
    expect(Object.keys(zh).filter((sentence) => !said.has(sentence) && !said.has(step(sentence)))).toEqual([]);
  });
  it("keeps its values", () => {
    // The number of a system's error, and what a setting is for, which the interface says beside it.
    const left = ["(os error {})", "this cannot be read as what it is: {}"];
    const tables = all.filter((path) => path.startsWith("i18n/told/")).map((path) => JSON.parse(text(path)) as Record<string, string>);
    const bad = tables.flatMap((words) => Object.entries(words)).filter(([sentence, told]) => {
      const count = sentence.split("{}").length - 1;
      const used = new Set([...told.matchAll(/\{(\d)\*?\}/g)].map((match) => Number(match[1])));
      return [...used].some((place) => place < 1 || place > count) || (used.size < count && !left.some((end) => sentence.endsWith(end)));
    });
    expect(bad).toEqual([]);
  });
});
