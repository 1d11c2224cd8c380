// A model's output is untrusted. Markdown becomes HTML with few tags, no styles, no ids, no addresses but web links, and nothing
// that loads on its own. Raw HTML is shown as text (`render.ts`); this is the second line of defence.
import DOMPurify, { type Config } from "dompurify";

const TAGS =
  "p br hr strong b em i u s del ins mark small sub sup kbd code pre blockquote ul ol li table thead tbody tr th td " +
  "h1 h2 h3 h4 h5 h6 a span div figure header button details summary " +
  "svg path line " +
  "math mrow mi mn mo ms mtext mspace mfrac msqrt mroot mstyle merror mpadded mphantom msub msup msubsup munder mover munderover mtable mtr mtd menclose";
const ATTRIBUTES =
  "href title class start align colspan rowspan tabindex type aria-label aria-hidden role data-copy " +
  "display mathvariant stretchy fence separator lspace rspace accent accentunder displaystyle scriptlevel linethickness " +
  "data-layout viewbox preserveaspectratio d x1 x2 y1 y2 stroke-width " +
  "columnalign rowspacing columnspacing width height depth voffset minsize maxsize symmetric largeop movablelimits notation";

const CONFIG: Config = {
  ALLOWED_TAGS: TAGS.split(" "),
  ALLOWED_ATTR: ATTRIBUTES.split(" "),
  ALLOWED_URI_REGEXP: /^(?:https?:|mailto:)/i,
  // Otherwise every other value would be treated as an address and removed.
  ADD_URI_SAFE_ATTR: ATTRIBUTES.split(" ").filter((name) => name !== "href"),
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  SANITIZE_DOM: true,
  KEEP_CONTENT: true,
};

/** A paragraph of plain text needs no sanitising, and parsing would take most of the time of a long answer. */
const MERE_TEXT = /^(?:<p>[^<]*<\/p>|[^<]*)\s*$/;

export function sanitise(html: string): string {
  if (MERE_TEXT.test(html)) return html;
  return DOMPurify.sanitize(html, CONFIG);
}
