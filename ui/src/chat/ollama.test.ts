import { expect, it } from "vitest";
import { imported } from "./exchange";
import { OllamaChats } from "./ollama.svelte";

const came = { chats: 12, messages: 340, present: 3, skipped: [] };

function looking(found: string | undefined, bring: (path: string) => Promise<typeof came> = async () => came): OllamaChats {
  return new OllamaChats({ find: async () => (found === undefined ? {} : { ollama_db: found }), bring });
}

it("finds the usual place, and lets the person name another", async () => {
  const here = looking("/h/.ollama/db.sqlite");
  expect(here.ready, "nothing to bring yet").toBe(false);
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

it("brings them once and says what came", async () => {
  const asked: string[] = [];
  const chats = looking(undefined, async (path) => (asked.push(path), came));
  chats.path = " /a/db.sqlite ";
  expect(await chats.bring()).toBe(true);
  expect(asked).toEqual(["/a/db.sqlite"]);
  expect(imported(came)).toBe("12 chats, 340 messages, 3 were here already");
  expect(imported({ chats: 1, messages: 1, present: 0, skipped: [{ title: "x", reason: "y" }] })).toBe("1 chat, 1 message, 1 left out");
});

it("says why nothing came, and can be asked again", async () => {
  const chats = looking(undefined, async () => {
    throw new Error("no such file");
  });
  chats.path = "/none";
  expect(await chats.bring()).toBe(false);
  expect([chats.error, chats.done, chats.ready]).toEqual(["no such file", undefined, true]);
});
