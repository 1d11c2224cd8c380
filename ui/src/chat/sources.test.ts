import { expect, it } from "vitest";
import type { Message, Sources } from "../api/chats";
import { citedNumbers, sourcesOf } from "./sources";

it("named passages are found once each, in order", () => {
  const check = (text: string, expected: number[]): void => expect(citedNumbers(text, 5), text).toEqual(expected);
  check("Steep it [2]. Then wait [1][2].", [1, 2]);
  check("Both say so [3, 1], and [ 4 ].", [1, 3, 4]);
  check("两处都有【2】，还有 [1、5]。", [1, 2, 5]);
  check("No marks: [a], [1.5], 3, [6], [0], [1-2].", []);
  check("[".repeat(50_000), []);
  check(`[${"1,".repeat(50_000)}`, []);
});

it("sources of an answer are those of its question", () => {
  const message = (id: string, more: Partial<Message>): Message => ({ id, role: "user", content: "", created_at: "", state: "complete", ...more });
  const sources: Sources = { collection: "c", name: "Tea", hits: [] };
  const messages = [message("1", { sources }), message("2", { parent: "1" }), message("3", { parent: "2" })];
  expect(sourcesOf(messages[1] as Message, messages)).toBe(sources);
  expect(sourcesOf(messages[2] as Message, messages)).toBeUndefined();
});
