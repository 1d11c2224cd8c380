import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { ChatsExport, Message } from "../api/chats";
import { ApiError } from "../api/client";
import type { DocumentText } from "../api/documents";
import { decodeText, imageType, isDocument, MOST_DOCUMENT_BYTES, sentFiles, splitByVision, readFiles } from "./attachments";
import { batches, fileName } from "./exchange";
import { contextSteps, defaultsOf } from "./params";
import { lastAnswerText, lastCode } from "./lastAnswer";
import { marked } from "./snippet";

const message = (role: string, content: string): Message => ({ id: content, role, content, created_at: "", state: "complete", versions: [] });

describe("snippets", () => {
  const check = (text: string, ranges: [number, number][], expected: string): void =>
    expect(marked(text, ranges).map((part) => (part.hit ? `[${part.text}]` : part.text)).join("")).toBe(expected);
  it("ranges are marked", () => {
    check("a bird sings", [[2, 6]], "a [bird] sings");
    check("aa", [[1, 2], [0, 1]], "[a][a]");
  });
  it("invalid ranges are ignored", () => {
    check("abc", [[2, 9], [1, 1]], "abc");
    check("abc", [[0, 2], [1, 3]], "[ab]c");
  });
});

it("file names of titles are valid on every system", () => {
  const check = (title: string, name: string): void => expect(fileName(title, "md")).toBe(name);
  check('a/b\\c:d*e?"<f>|g', "a b c d e f g.md");
  check("..\u0000..", "chat.md");
  check("con. ", "con.md");
  check("???", "chat.md");
  check("关于缓存", "关于缓存.md");
});

it("long export is split, and an invalid one is passed on unchanged", () => {
  const titles = (data: unknown, most: number): unknown[] => [...batches(data as ChatsExport, most)].map((one) => (Array.isArray(one?.chats) ? one.chats.map((chat) => chat.title) : one));
  const data = { format: "cairn-chats", chats: ["a", "b", "c", "d"].map((title) => ({ title })) };
  expect(titles(data, 1000)).toEqual([["a", "b", "c", "d"]]);
  expect(titles(data, 30)).toEqual([["a", "b"], ["c", "d"]]);
  expect(titles(data, 1), "a chat is never split").toEqual([["a"], ["b"], ["c"], ["d"]]);
  for (const none of [null, 5, "x", {}, { chats: 5 }]) expect(titles(none, 10)).toEqual([none]);
});

it("numeric parameters of a model are read", () => {
  expect(defaultsOf('temperature                    0.6\nstop    "<|im_end|>"\ntop_k 20\n')).toEqual({ temperature: 0.6, top_k: 20 });
});

it("context sizes end at the model's maximum", () => {
  expect(contextSteps(undefined)).toEqual([]);
  expect(contextSteps(2048)).toEqual([2048]);
  expect(contextSteps(10_000)).toEqual([2048, 4096, 8192, 10_000]);
});

it("last answer and its last code block are found", () => {
  const messages = [message("user", "hi"), message("assistant", "A\n```rust\nfn a() {}\n```\nB\n~~~\nlast\nline\n~~~\nC"), message("user", "ok")];
  expect(lastAnswerText(messages)).toContain("fn a");
  expect(lastCode(messages)).toBe("last\nline");
  expect(lastCode([message("assistant", "none")])).toBeUndefined();
});

describe("attachments", () => {
  it("binary content is no text", () => {
    expect(decodeText(new TextEncoder().encode("héllo 世界"))).toBe("héllo 世界");
    expect(decodeText(new Uint8Array([1, 0, 2]))).toBeUndefined();
    expect(decodeText(new Uint8Array([0xff, 0xfe, 0x41]))).toBeUndefined();
  });
  it("texts and images are read, other files are refused", async () => {
    const png = new File([new Uint8Array([0x89, 0x50])], "a.png", { type: "image/png" });
    const text = new File(["hello"], "b.txt", { type: "text/plain" });
    const other = new File([new Uint8Array([0, 1])], "c.zip", { type: "application/zip" });
    const { got, refused } = await readFiles([png, text, other]);
    expect(got).toEqual({ files: [{ name: "b.txt", text: "hello" }], images: [{ name: "a.png", data: "iVA=", type: "image/png" }] });
    expect(refused).toEqual([{ name: "c.zip", why: "binary" }]);
  });
  it("unreadable file is refused, the others are read", async () => {
    const folder = new File([], "folder");
    folder.arrayBuffer = () => Promise.reject(new DOMException("a folder", "NotFoundError"));
    const { got, refused } = await readFiles([folder, new File(["hello"], "b.txt")]);
    expect(got.files).toEqual([{ name: "b.txt", text: "hello" }]);
    expect(refused).toEqual([{ name: "folder", why: "unreadable" }]);
  });
  describe("documents", () => {
    beforeEach(() => void vi.stubGlobal("location", { origin: "http://127.0.0.1:1", hash: "", pathname: "/ui/", search: "" }));
    afterEach(() => {
      vi.restoreAllMocks();
      vi.unstubAllGlobals();
    });
    it("have their extensions", () => {
      expect(["a.PDF", "b.docx", "c.tar.xlsx", "d.htm"].every(isDocument)).toBe(true);
      expect(["pdf", "a.pdf.txt", "notes.md", "docx/readme"].some(isDocument)).toBe(false);
    });
    it("become text with the places of their parts", async () => {
      const read: DocumentText = {
        name: "a.pdf",
        format: "pdf",
        pages: 3,
        chars: 8,
        parts: [
          { place: { kind: "page", number: 1 }, text: "one" },
          { place: { kind: "sheet", name: "Sums" }, text: "1\t2" },
          { place: { kind: "heading", text: "H" }, text: "# H" },
        ],
      };
      const fetched = vi.spyOn(globalThis, "fetch").mockResolvedValue(new Response(JSON.stringify(read)));
      const file = new File(["%PDF"], "a b&c.pdf");
      const { got, refused } = await readFiles([file]);
      expect(refused).toEqual([]);
      expect(got.files).toEqual([{ name: "a b&c.pdf", text: "[page 1]\none\n\n[sheet Sums]\n1\t2\n\n# H", pages: 3, bytes: 4 }]);
      expect(sentFiles(got.files), "the daemon stores name and text").toEqual([{ name: "a b&c.pdf", text: got.files[0]?.text }]);
      const [url, request] = fetched.mock.calls[0] ?? [];
      expect([String(url).endsWith("/app/documents?name=a+b%26c.pdf"), request?.body]).toEqual([true, file]);
    });
    it("that are too large or have no text are refused", async () => {
      const fetched = vi.spyOn(globalThis, "fetch").mockResolvedValue(new Response(JSON.stringify({ error: "no text", code: "document_empty" }), { status: 400 }));
      const huge = new File([], "huge.pdf");
      Object.defineProperty(huge, "size", { value: MOST_DOCUMENT_BYTES + 1 });
      const { got, refused } = await readFiles([huge, new File(["%PDF"], "empty.pdf"), new File(["hello"], "b.txt")]);
      expect(refused).toEqual([{ name: "huge.pdf", why: "too_big_document" }, { name: "empty.pdf", why: "document", error: expect.any(ApiError) }]);
      expect([got.files.map((one) => one.name), fetched.mock.calls.length]).toEqual([["b.txt"], 1]);
    });
  });
  it("images are held back from a model without vision", async () => {
    const files = [{ name: "b.txt", text: "hello" }];
    const images = [{ name: "a.png", data: "iVA=", type: "image/png" }];
    expect(splitByVision({ files, images }, false)).toEqual({ sent: { files, images: [] }, held: { files: [], images } });
    expect(splitByVision({ files, images }, true)).toEqual({ sent: { files, images }, held: { files: [], images: [] } });
  });
  it("image types are detected by their first bytes", () => {
    expect([imageType("/9j/4AAQ"), imageType("iVBORw0"), imageType("UklGRg"), imageType("R0lGOD")]).toEqual(["image/jpeg", "image/png", "image/webp", "image/gif"]);
  });
});
