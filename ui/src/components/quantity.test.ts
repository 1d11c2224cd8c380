import { expect, it } from "vitest";
import { readBytes, writeBytes } from "./quantity";

it("reads what people type", () => {
  const rows: [string, number | undefined][] = [
    ["4 GB", 4e9], ["512M", 512e6], ["0", 0], ["1.5 tb", 1.5e12], ["1,5 GB", 1.5e9], ["4 GiB", 2 ** 32], ["12,000", 12000],
    ["", undefined], ["much", undefined], ["-4 GB", undefined], ["4 GX", undefined],
  ];
  for (const [text, bytes] of rows) expect(readBytes(text), text).toBe(bytes);
});

it("writes what it reads", () => {
  for (const text of ["4 GB", "512 MB", "1.5 TB", "0 B", "20 kB"]) expect(writeBytes(readBytes(text)!)).toBe(text);
  expect(writeBytes(2 ** 32)).toBe("4.29 GB");
});
