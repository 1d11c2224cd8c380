// Kinds of previews, and the documents of diagrams. They are shown in a frame without access to this page or the network (`public/preview.html`).

export type PreviewKind = "page" | "diagram";

/** How a code block of a language can be shown, besides as text. */
export function previewOf(language: string): PreviewKind | undefined {
  if (/^(?:x?html?|svg)$/i.test(language)) return "page";
  return /^mermaid$/i.test(language) ? "diagram" : undefined;
}

/** Longest source of a diagram: Mermaid takes minutes for larger ones. */
export const MOST_DIAGRAM_CHARS = 50_000;

/** Colours of the interface that a diagram uses. */
export interface Colours {
  dark: boolean;
  background: string;
  text: string;
  font: string;
}

/** Heights of a diagram's frame in pixels, at least and at most. */
const FRAME_PX = [48, 1600] as const;

/** The height that a frame reports, within limits: the text in it may be hostile. */
export function frameHeight(reported: unknown): number | undefined {
  if (typeof reported !== "number" || !Number.isFinite(reported)) return undefined;
  return Math.min(FRAME_PX[1], Math.max(FRAME_PX[0], Math.ceil(reported)));
}

/** JSON in a script: no text can end the element. */
function literal(value: unknown): string {
  return JSON.stringify(value).replaceAll("<", "\\u003c");
}

/** A document that draws a diagram with Mermaid (`mermaid` is its source) and reports its height, or shows why it cannot be drawn. */
export function diagramDocument(mermaid: string, source: string, colours: Colours): string {
  const { dark, background, text, font } = colours;
  const style = `html { color-scheme: ${dark ? "dark" : "light"}; background: ${background}; color: ${text}; font: .8125rem ${font}; }
body { margin: 0; padding: .75rem; } svg { display: block; margin: 0 auto; max-width: 100%; height: auto; }
pre { margin: 0; white-space: pre-wrap; font-size: .75rem; }`;
  const draw = `
mermaid.initialize({ startOnLoad: false, securityLevel: "strict", suppressErrorRendering: true, theme: ${literal(dark ? "dark" : "neutral")}, fontFamily: ${literal(font)} });
const report = () => parent.postMessage({ height: document.body.scrollHeight }, "*");
mermaid.render("diagram", ${literal(source)}).then(
  ({ svg }) => { document.body.innerHTML = svg; },
  (error) => { document.body.replaceChildren(Object.assign(document.createElement("pre"), { textContent: String(error?.message ?? error) })); },
).then(report);
new ResizeObserver(report).observe(document.body);`;
  const library = mermaid.replace(/<(?=\/script|!--)/gi, "\\x3c");
  return `<meta charset="utf-8"><style>${style}</style><body><script>${library}</script><script>${draw}</script>`;
}
