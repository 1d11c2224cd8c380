// Parts of the renderer that are loaded on demand: the highlighter and KaTeX. Text rendered without one is rendered again later.
class Late {
  /** Number of parts that have been loaded. */
  version = $state(0);
}

export const late = new Late();
