import { expect, it } from "vitest";
import type { FoundMachine, MirrorResponse } from "../../api/mirror";
import { Nearby } from "./nearby.svelte";

const machine = (name: string, more: Partial<FoundMachine> = {}): FoundMachine => ({
  name, address: `${name}:11434`, version: "1.0.0", fingerprint: name, joined: false, dropped: false, seen_at: "", got_bytes: 0, ...more,
});
const answer = (nearby: FoundMachine[], joined: string[] = []) =>
  ({ nearby, joined: joined.map((label) => ({ label, key: "", fingerprint: "" })) }) as unknown as MirrorResponse;

function network(nearby: FoundMachine[], refuse?: string) {
  const asked: string[] = [];
  const join = async (address: string, code: string) => {
    asked.push(`${address} ${code}`);
    if (refuse) throw new Error(refuse);
    return answer([], ["office-nas"]);
  };
  return { asked, nearby: new Nearby({ now: async () => answer(nearby), join }) };
}

it("offers one that was found and not joined", async () => {
  const { nearby } = network([machine("liar", { dropped: true }), machine("old", { joined: true }), machine("office-nas")]);
  await nearby.look();
  expect(nearby.found?.name).toBe("office-nas");
  nearby.ask();
  expect([nearby.asking, nearby.address, nearby.ready], "the code is missing").toEqual([true, "office-nas:11434", false]);
});

it("joins by address and code", async () => {
  const { nearby, asked } = network([]);
  await nearby.look();
  nearby.ask();
  nearby.address = " nas:11434 ";
  nearby.code = " ABCD-EFGH ";
  expect(await nearby.join()).toBe(true);
  expect(asked).toEqual(["http://nas:11434 ABCD-EFGH"]);
  expect([nearby.joined, nearby.asking]).toEqual([["office-nas"], false]);
});

it("says why it was not let in, and keeps what was typed", async () => {
  const { nearby } = network([], "the code is not good");
  await nearby.look();
  nearby.ask();
  nearby.address = "https://nas";
  nearby.code = "x";
  expect(await nearby.join()).toBe(false);
  expect([nearby.error, nearby.address, nearby.asking, nearby.busy]).toEqual(["the code is not good", "https://nas", true, false]);
});

it("offers nothing where nobody can tell", async () => {
  const nearby = new Nearby({ now: () => Promise.reject(new Error("no")), join: () => Promise.reject(new Error("no")) });
  await nearby.look();
  expect([nearby.known, nearby.found, nearby.joined]).toEqual([false, undefined, []]);
});
