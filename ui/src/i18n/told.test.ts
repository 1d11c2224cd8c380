import { afterEach, describe, expect, it } from "vitest";
import { locale, said, told } from "./index";
import { table, translate } from "./told";

const known = table({
  "model '{}' not found": "没有“{1}”",
  "{} failed: {}": "{1}失败：{2}",
  "{} of {} failed: {}": "{2} 的{1}失败：{3}",
  "reading": "读取",
  "{} bytes": "{1} 字节",
  "this ends{}": "到此结束{1*}",
  "; kept": "；已保留",
  "it is no folder": "它不是文件夹",
  "{} has {} and {}": "{3}，{1}，{2}",
});

describe("a sentence", () => {
  const check = (text: string, expected: string): void => expect(translate(known, text)).toBe(expected);
  it("keeps its values, wherever they go", () => {
    check("model 'a:b' not found", "没有“a:b”");
    check("a has b and c", "c，a，b");
    check("model '$& {1} \\' not found", "没有“$& {1} \\”");
  });
  it("is told with its reason", () => {
    check("writing failed: it is no folder", "writing失败：它不是文件夹");
    check("a of b failed: it is no folder", "b 的a失败：它不是文件夹");
    check("example.org: it is no folder", "example.org: 它不是文件夹");
  });
  it("is told with advice", () => {
    check("this ends; kept", "到此结束；已保留");
    check("x failed: it is no folder; kept", "x失败：它不是文件夹；已保留");
  });
  it("leaves names and paths alone", () => {
    check("model 'reading' not found", "没有“reading”");
    check("/a: b/c: d: e: f: g: h: it is no folder", "/a: b/c: d: e: f: g: h: 它不是文件夹");
    check("the file has 3 bytes", "the file has 3 bytes");
    check("3 bytes", "3 字节");
  });
  it("stays as it is where it is not known", () => {
    check("model 'a' not found.", "model 'a' not found.");
    check("something: else: went wrong", "something: else: went wrong");
    check("", "");
  });
  it("takes no long time, whatever it quotes", () => {
    const long = `a${" failed: ".repeat(400)}`;
    const begin = performance.now();
    translate(known, long);
    translate(known, " has and".repeat(480));
    expect(performance.now() - begin).toBeLessThan(1000);
  });
});

describe("the daemon", () => {
  afterEach(() => locale.set("en"));
  it("speaks the language of the interface", () => {
    locale.set("zh-CN");
    expect(told("model 'x' not found")).toContain("x");
    expect(told("model 'x' not found")).toMatch(/\p{Script=Han}/u);
    expect(said(new Error("could not open /a: No such file or directory (os error 2)"))).toBe("无法打开 /a：没有这个文件或文件夹");
    expect(told(undefined)).toBeUndefined();
    locale.set("en");
    expect(told("model 'x' not found")).toBe("model 'x' not found");
  });
  it("that is away is said to be, in words", () => {
    expect(said(new TypeError("Failed to fetch"))).toBe("Failed to fetch");
    expect(told("TypeError: Failed to fetch")).toMatch(/^The server/);
  });
});
