import { describe, expect, it } from "vitest";
import { commandLine, freeName, isCommandLine, pairs, splitCommand, validName } from "./commandLine";

describe("command line", () => {
  const check = (line: string, parts: string[]): void => expect(splitCommand(line), line).toEqual(parts);
  it("is split at spaces outside of quotes", () => {
    check("npx -y  server /home/me", ["npx", "-y", "server", "/home/me"]);
    check(`run "a b" 'c "d"' e"f g"`, ["run", "a b", 'c "d"', "ef g"]);
    check(`a "" b`, ["a", "", "b"]);
    check(String.raw`"C:\Program Files\x.exe" --in C:\y`, [String.raw`C:\Program Files\x.exe`, "--in", String.raw`C:\y`]);
    check("  ", []);
  });
  it("is shown with quotes where they are needed", () => {
    expect(commandLine("npx", ["-y", "a b", ""])).toBe('npx -y "a b" ""');
    expect(splitCommand(commandLine("node", ["my file", "x"]))).toEqual(["node", "my file", "x"]);
  });
  it("in the field of the program is noticed, but a path with spaces is none", () => {
    expect(["npx -y server", "uvx mcp-server-time"].map(isCommandLine)).toEqual([true, true]);
    expect(["npx", " npx ", "/opt/My App/server", String.raw`C:\My App\x.exe`, '"a b"', "./my server"].map(isCommandLine)).toEqual([false, false, false, false, false, false]);
  });
});

describe("names and values", () => {
  it("are read from lines", () => {
    expect(pairs("A=1\r\n\n B = x=y \n", "=")).toEqual({ values: { A: "1", B: " x=y " } });
    expect(pairs("Authorization: Bearer a:b\nX-Id:7", ":")).toEqual({ values: { Authorization: "Bearer a:b", "X-Id": "7" } });
    expect(pairs("", "=")).toEqual({ values: {} });
  });
  it("line without a name is reported", () => {
    expect(pairs("A=1\nB", "=").wrong).toBe("B");
    expect(pairs("=1", "=").wrong).toBe("=1");
    expect(pairs("export A=1", "=").wrong).toBe("export A=1");
  });
});

it("names of servers are corrected, and those that are taken get a number", () => {
  expect([" my files ", "-a_", "数据", "ok.1"].map(validName)).toEqual(["my-files", "a_", "", "ok.1"]);
  expect(freeName("files", ["files", "files-2"])).toBe("files-3");
  expect(freeName("x".repeat(64), []).length).toBe(64);
});
