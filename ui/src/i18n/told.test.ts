import { afterEach, describe, expect, it } from "vitest";
import { learn, locale, said, told } from "./index";
import { table, translate } from "./told.svelte";

const known = table({
  "model '{}' not found": "没有“{1}”",
  "{} failed: {}": "{1}失败：{2}",
  "{} of {} failed: {}": "{2} 的{1}失败：{3}",
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
    check("example.org: it is no folder", "example.org：它不是文件夹");
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
  it("speaks the language of the interface once its words have come", async () => {
    locale.set("zh-CN");
    await learn("zh-CN");
    expect(told("model 'x' not found")).toContain("x");
    expect(told("model 'x' not found")).toMatch(/\p{Script=Han}/u);
    expect(said(new Error("could not open /a: No such file or directory (os error 2)"))).toBe("无法打开 /a：没有这个文件或文件夹");
    expect(told(undefined)).toBeUndefined();
    locale.set("en");
    expect(told("model 'x' not found")).toBe("model 'x' not found");
  });
  it("that is away is said to be, in words", async () => {
    await learn("en");
    expect(said(new TypeError("Failed to fetch"))).toBe("Failed to fetch");
    expect(told("TypeError: Failed to fetch")).toMatch(/^The server/);
  });
});
