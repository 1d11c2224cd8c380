import { expect, it } from "vitest";
import { headline } from "./headline";

it("headline is the saved time from 10 s, else the reused share", () => {
  expect(headline(0, undefined)).toBeUndefined();
  expect(headline(9_999, 0.88)).toEqual({ figure: "88 %", words: "of prompt tokens reused" });
  expect(headline(10_000, 0.88)).toEqual({ figure: "10 s", words: "saved today" });
});
