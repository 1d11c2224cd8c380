import { expect, it } from "vitest";
import type { FoundMachine, MirrorResponse } from "../../api/mirror";
import { Nearby } from "./nearby.svelte";

const machine = (name: string, more: Partial<FoundMachine> = {}): FoundMachine => ({
  name, address: `${name}:11434`, version: "1.0.0", fingerprint: name, joined: false, dropped: false, seen_at: "", got_bytes: 0, ...more,
});
const answer = (nearby: FoundMachine[], joined: string[] = []) =>
  ({ nearby, joined: joined.map((label) => ({ label, key: "", fingerprint: "" })) }) as unknown as MirrorResponse;

function network(nearby: FoundMachine[], refuse?: string) {
  const joins: string[] = [];
  const join = async (address: string, code: string) => {
    joins.push(`${address} ${code}`);
    if (refuse) throw new Error(refuse);
    return answer([], ["office-nas"]);
  };
  return { joins, nearby: new Nearby({ now: async () => answer(nearby), join }) };
}

it("found computer that has not joined is offered", async () => {
  const { nearby } = network([machine("liar", { dropped: true }), machine("old", { joined: true }), machine("office-nas")]);
  await nearby.look();
  expect(nearby.found?.name).toBe("office-nas");
  nearby.edit();
  expect([nearby.isEditing, nearby.address, nearby.ready], "the code is missing").toEqual([true, "office-nas:11434", false]);
});

it("joins by address and code", async () => {
  const { nearby, joins } = network([]);
  await nearby.look();
  nearby.edit();
  nearby.address = " nas:11434 ";
  nearby.code = " ABCD-EFGH ";
  expect(await nearby.join()).toBe(true);
  expect(joins).toEqual(["http://nas:11434 ABCD-EFGH"]);
  expect([nearby.joined, nearby.isEditing]).toEqual([["office-nas"], false]);
});

it("refused join is reported and keeps the input", async () => {
  const { nearby } = network([], "the code is not good");
  await nearby.look();
  nearby.edit();
  nearby.address = "https://nas";
  nearby.code = "x";
  expect(await nearby.join()).toBe(false);
  expect([String(nearby.error), nearby.address, nearby.isEditing, nearby.busy]).toEqual(["Error: the code is not good", "https://nas", true, false]);
});

it("nothing is offered if the status is unknown", async () => {
  const nearby = new Nearby({ now: () => Promise.reject(new Error("no")), join: () => Promise.reject(new Error("no")) });
  await nearby.look();
  expect([nearby.isAvailable, nearby.found, nearby.joined]).toEqual([false, undefined, []]);
});

it("computers are shown only if there is one, or one is entered", async () => {
  const { nearby } = network([]);
  expect(nearby.isShown, "no status yet").toBe(false);
  await nearby.look();
  expect([nearby.isAvailable, nearby.isShown]).toEqual([true, false]);
  nearby.edit();
  expect(nearby.isShown).toBe(true);
  nearby.cancel();
  expect(nearby.isShown).toBe(false);
  const found = network([machine("office-nas")]).nearby;
  await found.look();
  expect(found.isShown).toBe(true);
});
