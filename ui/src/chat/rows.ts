// Which rows of the list of chats are drawn: those in view and some around them. All rows are equally high.

/** A group's heading is about so many rows high. */
const HEADING_ROWS = 1;
/** Rows drawn beyond the view, so that the next one is there for the keyboard and a slow scroll shows no gap. */
const BEYOND = 12;

export interface Shown {
  /** Rows above the groups; those have a heading too. */
  above: number;
  /** How many rows each group has. */
  groups: readonly number[];
  rowPx: number;
  top: number;
  viewPx: number;
}

/** For each group which of its rows, `[from, to)`. */
export function windows({ above, groups, rowPx, top, viewPx }: Shown): [number, number][] {
  const first = top / rowPx - BEYOND;
  const last = (top + viewPx) / rowPx + BEYOND;
  let begin = above > 0 ? above + HEADING_ROWS : 0;
  return groups.map((count) => {
    begin += HEADING_ROWS;
    const within = (row: number): number => Math.min(count, Math.max(0, Math.round(row - begin)));
    const rows: [number, number] = [within(first), within(last)];
    begin += count;
    return rows;
  });
}
