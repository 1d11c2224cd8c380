import { afterEach, expect, it } from "vitest";
import { locale } from "../../i18n";
import { placeText } from "../../i18n/documents";
import { markWords, stem } from "./passages";

afterEach(() => locale.set("en"));

const marks = (text: string, query: string): string[] => markWords(text, query).filter((part) => part.hit).map((part) => part.text);

it("forms of an English word have the same stem", () => {
  const check = (forms: string[]): void => expect(new Set(forms.map(stem)).size, `${forms.map(stem)}`).toBe(1);
  check(["open", "opens", "opened", "opening"]);
  check(["city", "cities"]);
  check(["Stop", "stopped", "stopping"]);
  check(["change", "changes", "changed", "changing"]);
  check(["pass", "passes", "passed"]);
  check(["café", "CAFE"]);
  expect(stem("bus")).not.toBe(stem("bu"));
});

it("words of a query are marked in all their forms, without common words", () => {
  const check = (text: string, query: string, expected: string[]): void => expect(marks(text, query), `${query} in ${text}`).toEqual(expected);
  check("The harbour opens at six. Open it!", "When does the harbour open?", ["harbour", "opens", "Open"]);
  check("To be or not to be", "to be", ["To", "be", "to", "be"]);
  check("Nothing here", "harbour", []);
  check("备份策略每天执行", "备份策略", ["备份策略"]);
  check("策略：每天备份", "备份策略", ["策略", "备份"]);
  check("喝茶，茶好", "茶", ["茶", "茶"]);
  check("用Rust写的备份", "Rust 备份", ["Rust", "备份"]);
  check("x", "?!", []);
});

it("parts of a passage are its whole text", () => {
  const text = "The harbour opens at six, the Café 茶馆 too.";
  for (const query of ["harbour cafe", "茶馆", "six too", ""]) expect(markWords(text, query).map((part) => part.text).join("")).toBe(text);
});

it("places are described", () => {
  expect([placeText({ kind: "page", number: 3 }), placeText({ kind: "slide", number: 2 }), placeText({ kind: "sheet", name: "Costs" }), placeText({ kind: "heading", text: "Lease" }), placeText({ kind: "whole" })]).toEqual(["page 3", "slide 2", "sheet “Costs”", "“Lease”", undefined]);
  locale.set("zh-CN");
  expect(placeText({ kind: "page", number: 3 })).toBe("第 3 页");
});
