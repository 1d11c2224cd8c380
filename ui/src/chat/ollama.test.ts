import { expect, it } from "vitest";
import { importSummary } from "./exchange";
import { OllamaChats } from "./ollama.svelte";

const result = { chats: 12, messages: 340, present: 3, skipped: [] };

function looking(found: string | undefined, importFrom: (path: string) => Promise<typeof result> = async () => result): OllamaChats {
  return new OllamaChats({ find: async () => (found === undefined ? {} : { ollama_db: found }), importFrom });
}

it("usual location is found, and another can be entered", async () => {
  const here = looking("/h/.ollama/db.sqlite");
  expect(here.ready, "nothing to import yet").toBe(false);
  await here.look();
  expect([here.path, here.found, here.ready]).toEqual(["/h/.ollama/db.sqlite", true, true]);
  const typed = looking("/h/.ollama/db.sqlite");
  typed.path = "/else";
  await typed.look();
  expect(typed.path).toBe("/else");
  const none = looking(undefined);
  await none.look();
  expect([none.path, none.found, none.ready]).toEqual(["", false, false]);
});

it("chats are imported once and the result is reported", async () => {
  const paths: string[] = [];
  const chats = looking(undefined, async (path) => (paths.push(path), result));
  chats.path = " /a/db.sqlite ";
  expect(await chats.importChats()).toBe(true);
  expect(paths).toEqual(["/a/db.sqlite"]);
  expect(importSummary(result)).toBe("Imported 12 chats. 3 were already here.");
  expect(importSummary({ chats: 1, messages: 1, present: 0, skipped: [{ title: "x", reason: "y" }] })).toBe("Imported 1 chat. 1 was skipped.");
});

it("failed import is reported and can be repeated", async () => {
  const chats = looking(undefined, async () => {
    throw new Error("no such file");
  });
  chats.path = "/none";
  expect(await chats.importChats()).toBe(false);
  expect([String(chats.error), chats.done, chats.ready]).toEqual(["Error: no such file", undefined, true]);
});
