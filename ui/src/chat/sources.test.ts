import { expect, it } from "vitest";
import type { CollectionHit, Message, Sources } from "../api/chats";
import { citedNumbers, citedPassages, passagesOf } from "./sources";

it("marks have numbers", () => {
  const check = (text: string, expected: number[]): void => expect([...citedNumbers(text)].sort(), text.slice(0, 50)).toEqual(expected);
  check("Steep it [2]. Then wait [1][2].", [1, 2]);
  check("Both say so [3, 1], and [ 4 ].", [1, 3, 4]);
  check("两处都有【2】，还有 [1、5]。", [1, 2, 5]);
  check("No marks: [a], [1.5], 3, [1-2].", []);
  check("Code has none: `a[1]`\n```js\nb[2]\n```\nbut [3]", [3]);
  check("```\nopen[1]", []);
  check("[".repeat(50_000), []);
  check(`[${"1,".repeat(50_000)}`, []);
  check("`".repeat(50_000), []);
});

it("an answer names passages of its branch by numbers that continue", () => {
  const hit = (name: string): CollectionHit => ({ document: name, name, place: { kind: "whole" }, chunk: 0, text: name, score: 1, by: ["words"] });
  const sources = (first: number, ...names: string[]): Sources => ({ collection: "c", name: "Tea", first, hits: names.map(hit) });
  const message = (id: string, parent: string | undefined, more: Partial<Message>): Message => ({ id, ...(parent ? { parent } : {}), role: "user", content: "", created_at: "", state: "complete", ...more });
  const messages = [
    message("1", undefined, { sources: sources(1, "a", "b") }),
    message("2", "1", { content: "[2], and not [3]" }),
    message("3", "2", { sources: sources(3, "c") }),
    message("4", "3", { content: "[3] and [1], not [4] or [0]" }),
    message("5", "4", {}),
    message("6", "5", { content: "As [2]." }),
  ];
  const names = (at: number): string[] => citedPassages(messages[at] as Message, messages).map(({ number, hit }) => `${number} ${hit.name}`);
  expect(names(1), "a later passage is not one of this answer").toEqual(["2 b"]);
  expect(names(3)).toEqual(["1 a", "3 c"]);
  expect(names(5), "a question without passages").toEqual(["2 b"]);
  expect(passagesOf(sources(3, "c")).map(({ number }) => number)).toEqual([3]);
});
