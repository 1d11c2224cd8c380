import { expect, it } from "vitest";
import type { Setting } from "../../api/types";
import { listening, parts, reaches, wanted } from "./lan";

it("addresses are parsed as in the daemon", () => {
  const check = (address: string, host: string, port: string, lan: boolean): void => expect([parts(address), reaches(address)], address).toEqual([{ host, port }, lan]);
  check("127.0.0.1:11434", "127.0.0.1", "11434", false);
  check("127.0.0.2", "127.0.0.2", "11434", false);
  check("localhost:80", "localhost", "80", false);
  check("[::1]:8080", "::1", "8080", false);
  check("::1", "::1", "11434", false);
  check("0.0.0.0:11500", "0.0.0.0", "11500", true);
  check("[::]", "::", "11434", true);
  check("http://192.168.1.5:99/x", "192.168.1.5", "99", true);
  check("nas", "nas", "11434", true);
});

it("switch keeps the port", () => {
  expect(listening("127.0.0.1:11500", true)).toBe("0.0.0.0:11500");
  expect(listening("0.0.0.0:11500", false)).toBe("127.0.0.1:11500");
});

it("switch shows the stored setting and a pending restart", () => {
  const host = (value: string) => ({ value }) as Setting;
  expect(wanted(host("0.0.0.0:1"), false)).toEqual({ on: true, waits: true });
  expect(wanted(host("0.0.0.0:1"), true)).toEqual({ on: true, waits: false });
  expect(wanted(undefined, true), "before the settings have loaded").toEqual({ on: true, waits: false });
});
