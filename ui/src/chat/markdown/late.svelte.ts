// Parts of the renderer that are loaded late: the highlighter and KaTeX. When one has come, what was drawn without is drawn again.
class Late {
  /** Counts the parts that have come. */
  version = $state(0);
  /** Counts how often something was drawn without a part that was on its way. */
  missed = 0;
}

export const late = new Late();
