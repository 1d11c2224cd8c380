import { expect, it } from "vitest";
import { downloadValue } from "./dragOut";
import { codeFileName } from "./markdown/codeFile";

it("a dragged file has its type, name and address", () => {
  expect(downloadValue({ name: "a: b.md", text: "", type: "text/markdown" }, "blob:x")).toBe("text/markdown:a  b.md:blob:x");
});

it("code is named by its language", () => {
  const names = ["Rust", "python", "html", "toml", "dockerfile", "", "c++", "../../x", "exe", "constructor", "a".repeat(40)].map(codeFileName);
  expect(names).toEqual(["code.rs", "code.py", "code.html", "code.toml", "Dockerfile", "code.txt", "code.cpp", "code.txt", "code.txt", "code.txt", "code.txt"]);
});
