// KaTeX uses `style` attributes, which the page's policy forbids in parsed HTML. So styles are carried as data and set by script
// once the elements are in the page: only properties that formulas need, and only plain lengths and colours.

const LENGTH = /^-?(?:\d+\.?\d*|\.\d+)(?:em|ex|px|pt|%)?$/;
const COLOUR = /^(?:#[0-9a-f]{3,8}|[a-z]{3,20})$/i;
const LINE = /^(?:solid|dashed)$/;
const LENGTHS =
  "height width min-width top bottom left margin-left margin-right margin-top padding-left vertical-align " +
  "border-width border-top-width border-bottom-width border-right-width";

const PROPERTIES = new Map<string, RegExp>([
  ...LENGTHS.split(" ").map((name) => [name, LENGTH] as const),
  ["color", COLOUR],
  ["border-color", COLOUR],
  ["background-color", COLOUR],
  ["border-style", LINE],
  ["border-right-style", LINE],
  ["position", /^relative$/],
  ["margin", /^(?:-?\d*\.?\d+(?:em)? ?){1,4}$/],
]);

const CARRIER = "data-layout";

/** The allowed declarations of a `style` attribute. */
export function declarations(style: string): [name: string, value: string][] {
  return style.split(";").flatMap((declaration): [string, string][] => {
    const at = declaration.indexOf(":");
    const [name, value] = [declaration.slice(0, at).trim(), declaration.slice(at + 1).trim()];
    return PROPERTIES.get(name)?.test(value) ? [[name, value]] : [];
  });
}

/** KaTeX's HTML with its styles as data. */
export function carried(html: string): string {
  return html.replace(/ style="([^"]*)"/g, (_, style: string) => {
    const safe = declarations(style);
    return safe.length === 0 ? "" : ` ${CARRIER}="${safe.map(([name, value]) => `${name}:${value}`).join(";")}"`;
  });
}

/** Sets the styles carried by `html`, the content of `element`; again whenever it changes. */
export function laidOut(element: HTMLElement, html: string) {
  const set = (now: string): void => {
    if (!now.includes(CARRIER)) return;
    for (const part of element.querySelectorAll<HTMLElement>(`[${CARRIER}]`)) {
      for (const [name, value] of declarations(part.getAttribute(CARRIER) ?? "")) part.style.setProperty(name, value);
    }
  };
  set(html);
  return { update: set };
}
