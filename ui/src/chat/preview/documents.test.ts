import { describe, expect, it } from "vitest";
import { diagramDocument, frameHeight, previewOf } from "./documents";

const COLOURS = { dark: true, background: "black", text: "white", font: `"A B", sans-serif` };

describe("previews", () => {
  it("are offered for pages and diagrams only", () => {
    const kinds = Object.fromEntries(["html", "HTML", "xhtml", "svg", "mermaid", "rust", "htmlx", "", "javascript"].map((language) => [language, previewOf(language)]));
    expect(kinds).toEqual({ html: "page", HTML: "page", xhtml: "page", svg: "page", mermaid: "diagram", rust: undefined, htmlx: undefined, "": undefined, javascript: undefined });
  });
  it("have a height within limits", () => {
    expect([frameHeight(100.2), frameHeight(1), frameHeight(1e9), frameHeight(Number.NaN), frameHeight("9"), frameHeight(undefined)]).toEqual([101, 48, 1600, undefined, undefined, undefined]);
  });
});

describe("document of a diagram", () => {
  it("keeps a source from ending its script", () => {
    const document = diagramDocument("const library = '</script><!--';", "A --> B</script><script>owned()</script>", COLOURS);
    expect(document.match(/<\/script>/g)).toHaveLength(2);
    expect(document.match(/<script>/g)).toHaveLength(2);
    expect(document).not.toContain("<!--");
    expect(document).toContain("A --> B\\u003c/script>");
  });
  it("leaves the meaning of the library unchanged", () => {
    const library = /<script>(.*?)<\/script>/s.exec(diagramDocument("return '</script><!--';", "", COLOURS))?.[1] ?? "";
    expect(new Function(library)()).toBe("</script><!--");
  });
});
