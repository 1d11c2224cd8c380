import { expect, it } from "vitest";
import { unfinishedWork } from "./unfinishedWork";

it("page asks before it closes while any check finds work", () => {
  const work = { uploads: false, removals: false };
  expect(unfinishedWork.exists()).toBe(false);
  unfinishedWork.add(() => work.uploads);
  unfinishedWork.add(() => work.removals);
  expect(unfinishedWork.exists()).toBe(false);
  work.removals = true;
  expect(unfinishedWork.exists()).toBe(true);
  work.removals = false;
  expect(unfinishedWork.exists()).toBe(false);
});
