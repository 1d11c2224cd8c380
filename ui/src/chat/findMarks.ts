// Marks the occurrences of a text in the rendered messages, with highlights of the browser: the elements are not changed.
import { occurrences, type Match } from "./find.svelte";

const ALL = "find";
const CURRENT = "find-current";
/** Rendered text of a message, without its buttons and statistics. */
const BODIES = ".prose, .bubble";
/** Drawn formulas repeat their text for screen readers. */
const SKIPPED = "[aria-hidden='true'], button";
/** Changes of the thread are marked at most this often. */
const PAUSE_MS = 120;

interface Place {
  node: Text;
  from: number;
}

/** The text nodes of an element, and their whole text. */
function textOf(element: Element): { text: string; places: Place[] } {
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT, (node) => (node.parentElement?.closest(SKIPPED) ? NodeFilter.FILTER_REJECT : NodeFilter.FILTER_ACCEPT));
  const places: Place[] = [];
  let text = "";
  for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
    places.push({ node: node as Text, from: text.length });
    text += (node as Text).data;
  }
  return { text, places };
}

/** The node and offset of a position in the whole text. */
function point(places: readonly Place[], at: number): [Text, number] {
  const place = places.findLast((one) => one.from <= at) ?? places[0];
  if (place === undefined) throw new RangeError("no text");
  return [place.node, at - place.from];
}

function rangesIn(element: Element, wanted: string): Range[] {
  const { text, places } = textOf(element);
  return occurrences(text, wanted).map((at) => {
    const range = new Range();
    range.setStart(...point(places, at));
    const [node, offset] = point(places, at + wanted.trim().length - 1);
    range.setEnd(node, offset + 1);
    return range;
  });
}

/** Marks a text in a thread; returns the range of the current match, if it is rendered. */
function mark(thread: Element, wanted: string, current: Match | undefined): Range | undefined {
  const all: Range[] = [];
  let shown: Range | undefined;
  for (const slot of thread.querySelectorAll<HTMLElement>("[data-id]")) {
    const ranges = [...slot.querySelectorAll(BODIES)].flatMap((body) => rangesIn(body, wanted));
    all.push(...ranges);
    // Formatting can hide occurrences of the source, so the last rendered one replaces those after it.
    if (current !== undefined && slot.dataset["id"] === current.message) shown = ranges[Math.min(current.nth, ranges.length - 1)];
  }
  CSS.highlights.set(ALL, new Highlight(...all));
  CSS.highlights.set(CURRENT, shown ? new Highlight(shown) : new Highlight());
  return shown;
}

/** Marks of a thread, kept while its messages change. */
export class FindMarks {
  #wanted = "";
  #current: Match | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  readonly #changes = new MutationObserver(() => {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      this.#mark();
    }, PAUSE_MS);
  });

  constructor(private readonly thread: Element) {
    this.#changes.observe(thread, { childList: true, subtree: true, characterData: true });
  }

  /** Whether the browser has highlights; without them only the message is shown. */
  static get isSupported(): boolean {
    return typeof Highlight !== "undefined" && "highlights" in CSS;
  }

  /** Marks a text, and scrolls to the current match. */
  show(wanted: string, current: Match | undefined): void {
    this.#wanted = wanted;
    this.#current = current;
    this.#mark()?.startContainer.parentElement?.scrollIntoView({ block: "center" });
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#changes.disconnect();
    if (!FindMarks.isSupported) return;
    CSS.highlights.delete(ALL);
    CSS.highlights.delete(CURRENT);
  }

  #mark(): Range | undefined {
    return FindMarks.isSupported ? mark(this.thread, this.#wanted, this.#current) : undefined;
  }
}
