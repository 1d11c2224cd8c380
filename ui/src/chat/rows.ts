// Virtual scrolling of the list of chats. All rows have the same height.

/** Height of a group's heading, in rows. */
const HEADING_ROWS = 1;
/** Rows drawn outside of the view, for keyboard focus and slow scrolling. */
const BEYOND = 12;

export interface Shown {
  /** Rows above the groups, including a heading. */
  above: number;
  /** Number of rows of each group. */
  groups: readonly number[];
  rowPx: number;
  top: number;
  viewPx: number;
}

/** The rows to draw of each group, `[from, to)`. */
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
