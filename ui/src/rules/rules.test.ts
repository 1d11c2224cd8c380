// Architecture rules of the interface, checked on its source.
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

/** Imports of a file within the source, as paths below it. */
function imports(path: string): string[] {
  const found = [...text(path).matchAll(/(?:from|import)\s*\(?\s*["'](\.[^"']+)["']/g)].map((match) => match[1] ?? "");
  return found.map((target) => relative(SRC, join(SRC, path, "..", target)));
}

/** Imports that a rule forbids, as `from -> to`. */
function broken(forbidden: (from: string, to: string) => boolean): string[] {
  return code.flatMap((from) => imports(from).filter((to) => forbidden(from, to)).map((to) => `${from} -> ${to}`));
}

const panelOf = (path: string): string | undefined => /^panels\/([^/]+)/.exec(path)?.[1] ?? (path.startsWith("chat/") || path === "chat" ? "chat" : undefined);

describe("layers", () => {
  it("components import no server access, texts or screens", () => {
    expect(broken((from, to) => from.startsWith("components/") && !to.startsWith("components/"))).toEqual([]);
  });
  it("screens do not import each other", () => {
    const between = broken((from, to) => panelOf(from) !== undefined && panelOf(to) !== undefined && panelOf(from) !== panelOf(to));
    expect(between).toEqual([]);
  });
  it("api imports no screen", () => {
    expect(broken((from, to) => from.startsWith("api/") && !/^(api|platform)(\/|$)/.test(to))).toEqual([]);
  });
  it("only api sends requests", () => {
    expect(code.filter((path) => !path.startsWith("api/") && /\bfetch\(|XMLHttpRequest|EventSource|WebSocket/.test(text(path)))).toEqual([]);
  });
  it("only platform uses the window", () => {
    expect(code.filter((path) => !path.startsWith("platform/") && /__TAURI|@tauri-apps/.test(text(path)))).toEqual([]);
  });
});

describe("panels", () => {
  it("every panel folder is listed and every listed panel exists", () => {
    const folders = readdirSync(join(SRC, "panels")).filter((name) => name !== "first-run");
    const rows = [...text("app/panels.ts").matchAll(/import\("\.\.\/panels\/([^"]+)"\)/g)].map((match) => match[1]);
    expect(rows.toSorted()).toEqual(folders.toSorted());
  });
});

describe("size", () => {
  it("components have at most 250 lines", () => {
    expect(all.filter((path) => path.endsWith(".svelte") && text(path).split("\n").length > 250)).toEqual([]);
  });
});

describe("elements", () => {
  it("bound elements are not compared with undefined: Svelte sets them to null when they leave the page", () => {
    const compared = all
      .filter((path) => path.endsWith(".svelte"))
      .flatMap((path) =>
        [...new Set([...text(path).matchAll(/bind:(?:this|element)=\{(\w+)\}/g)].map((match) => match[1] ?? ""))]
          .filter((name) => new RegExp(`\\b${name}\\s*[!=]==\\s*undefined`).test(text(path)))
          .map((name) => `${path}: ${name}`),
      );
    expect(compared).toEqual([]);
  });
});

describe("colours and styles", () => {
  it("only tokens.css contains colours", () => {
    const colour = /#[0-9a-f]{3,8}\b(?![^"']*["']?\))|\b(?:rgb|hsl|oklch|oklab|lab|lch)a?\(/i;
    const styled = all.filter((path) => /\.(css|svelte)$/.test(path) && path !== "styles/tokens.css");
    const found = styled.filter((path) => {
      const styles = path.endsWith(".css") ? text(path) : [...text(path).matchAll(/<style[\s\S]*?<\/style>|style(?::[\w-]+)?="[^"]*"|(?:fill|stroke)="#[^"]*"/g)].join("\n");
      return colour.test(styles);
    });
    expect(found).toEqual([]);
  });
  it("elements have no style attribute, which the page's policy forbids", () => {
    expect(all.filter((path) => path.endsWith(".svelte") && /\sstyle=/.test(text(path)))).toEqual([]);
  });
});

describe("texts", () => {
  const words = (language: string): Record<string, string> =>
    Object.fromEntries(
      readdirSync(join(SRC, "i18n", language)).flatMap((file) => {
        const entries = JSON.parse(text(`i18n/${language}/${file}`)) as Record<string, string>;
        return Object.entries(entries).map(([name, value]) => [`${file.replace(".json", "")}.${name}`, value]);
      }),
    );
  const en = words("en");
  const zh = words("zh-CN");

  it("languages have the same keys", () => {
    expect(Object.keys(zh).toSorted()).toEqual(Object.keys(en).toSorted());
  });
  it("languages use the same values", () => {
    const names = (value: string): string[] => [...new Set([...value.matchAll(/\{(\w+)/g)].map((match) => match[1] ?? ""))].toSorted();
    expect(Object.keys(en).filter((key) => names(en[key] ?? "").join() !== names(zh[key] ?? "").join())).toEqual([]);
  });
  it("used keys exist", () => {
    const used = code.flatMap((path) => [...text(path).matchAll(/\bt\(\s*"([^"]+)"/g)].map((match) => `${path}: ${match[1]}`));
    expect(used.length).toBeGreaterThan(100);
    expect(used.filter((use) => !((use.split(": ")[1] ?? "") in en))).toEqual([]);
  });
  it("existing keys are used", () => {
    const source = code.map(text).join("\n");
    // A composed key needs a fixed beginning, so that this test can match it.
    const composed = [...source.matchAll(/`([a-z-]+\.\w+)\$\{[^`]*`/g)].map((match) => match[1] ?? "");
    // `errors.test.ts` checks the texts of error codes.
    const unused = Object.keys(en).filter((key) => !key.startsWith("errors.") && !source.includes(`"${key}"`) && !composed.some((start) => key.startsWith(start)));
    expect(unused).toEqual([]);
  });
  it("templates contain no literal texts", () => {
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
