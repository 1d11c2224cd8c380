import { expect, it } from "vitest";
import { droppedFiles, fieldFiles, isReadable, nameIn } from "./files";

function file(path: string): File {
  const made = new File(["x"], path.split("/").at(-1) ?? path);
  Object.defineProperty(made, "webkitRelativePath", { value: path.includes("/") ? path : "" });
  return made;
}

it("readable files of a folder are chosen by format, without hidden ones", () => {
  const check = (path: string, expected: boolean): void => expect(isReadable(path), path).toBe(expected);
  check("notes/report.PDF", true);
  check("notes/a/readme.md", true);
  check("notes/photo.jpg", false);
  check("notes/Makefile", false);
  check("notes/.git/config.txt", false);
  check("notes/.hidden.md", false);
  check("app/node_modules/x/readme.md", false);
  check("notes/~$report.docx", false);
});

it("files of folders are named by their path below the folder", () => {
  expect([nameIn("notes/a/readme.md"), nameIn("readme.md")]).toEqual(["a/readme.md", "readme.md"]);
  expect(nameIn(`notes/${"文".repeat(90)}/readme.md`), "a long path").toBe("readme.md");
});

it("single files may have any format, files of a folder need a readable one", () => {
  const names = (chosen: ReturnType<typeof fieldFiles>): unknown => [chosen.files.map((one) => one.name), chosen.skipped];
  expect(names(fieldFiles([file("LICENSE"), file("photo.jpg")]))).toEqual([["LICENSE", "photo.jpg"], 0]);
  expect(names(fieldFiles([file("n/b.md"), file("n/photo.jpg"), file("n/a/c.txt")]))).toEqual([["a/c.txt", "b.md"], 1]);
});

it("dropped folders are read with all their folders", async () => {
  const fileEntry = (name: string) => ({ name, isDirectory: false, file: (resolve: (file: File) => void) => resolve(new File(["x"], name)) });
  /** The browser returns entries in parts. */
  const folder = (name: string, entries: object[]) => ({ name, isDirectory: true, createReader: () => ({ readEntries: (resolve: (part: object[]) => void) => resolve(entries.splice(0, 1)) }) });
  const tree = folder("notes", [fileEntry("b.md"), folder("old", [fileEntry("a.txt"), fileEntry("a.png")]), folder(".git", [fileEntry("c.txt")])]);
  const single = new File(["x"], "LICENSE");
  const item = (entry: object) => ({ kind: "file", webkitGetAsEntry: () => entry });
  const data = { items: [item(tree), item(fileEntry("LICENSE"))], files: [new File([], "notes"), single] } as unknown as DataTransfer;
  const { files, skipped } = await droppedFiles(data);
  expect([files.map((one) => one.name), skipped]).toEqual([["LICENSE", "b.md", "old/a.txt"], 1]);
});

it("unreadable entries of a dropped folder are counted, and the others are added", async () => {
  const fileEntry = (name: string) => ({ name, isDirectory: false, file: (resolve: (file: File) => void) => resolve(new File(["x"], name)) });
  const broken = (name: string) => ({ name, isDirectory: false, file: (_: unknown, reject: (error: unknown) => void) => reject(new Error("no permission")) });
  const folder = (name: string, entries: object[]) => ({ name, isDirectory: true, createReader: () => ({ readEntries: (resolve: (part: object[]) => void) => resolve(entries.splice(0, 1)) }) });
  const closed = (name: string) => ({ name, isDirectory: true, createReader: () => ({ readEntries: (_: unknown, reject: (error: unknown) => void) => reject(new Error("no permission")) }) });
  const drop = (entry: object) => droppedFiles({ items: [{ kind: "file", webkitGetAsEntry: () => entry }], files: [new File([], "notes")] } as unknown as DataTransfer);
  const { files, skipped } = await drop(folder("notes", [broken("link.md"), fileEntry("b.md"), closed("private"), fileEntry("c.md")]));
  expect([files.map((one) => one.name), skipped]).toEqual([["b.md", "c.md"], 2]);
  expect(await drop(closed("notes")), "the dropped folder").toEqual({ files: [], skipped: 1 });
  expect(await drop(folder("notes", [])), "an empty folder").toEqual({ files: [], skipped: 0 });
  // Equal to a folder field, which has the files of all folders.
  const tree = folder("notes", [fileEntry("b.md"), folder("node_modules", [folder("x", [fileEntry("a.js")])]), folder(".git", [broken("config")])]);
  const field = fieldFiles([file("notes/b.md"), file("notes/node_modules/x/a.js"), file("notes/.git/config")]);
  expect([(await drop(tree)).skipped, field.skipped]).toEqual([0, 0]);
});
