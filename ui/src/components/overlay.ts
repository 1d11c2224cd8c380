// Behaviour that popovers, menus and dialogs share: Escape and an outside click close them and restore the focus.

/** Closes `element` on Escape or on a press outside of it and of `anchor`. */
export function dismissable(element: HTMLElement, options: { anchor?: HTMLElement | undefined; close: () => void }) {
  const before = document.activeElement;
  function down(event: PointerEvent): void {
    const target = event.target as Node;
    if (!element.contains(target) && !options.anchor?.contains(target)) options.close();
  }
  function key(event: KeyboardEvent): void {
    if (event.key !== "Escape") return;
    event.preventDefault();
    event.stopPropagation();
    options.close();
  }
  document.addEventListener("pointerdown", down, true);
  document.addEventListener("keydown", key, true);
  return {
    destroy() {
      document.removeEventListener("pointerdown", down, true);
      document.removeEventListener("keydown", key, true);
      if (before instanceof HTMLElement && before.isConnected && (element.contains(document.activeElement) || document.activeElement === document.body)) before.focus();
    },
  };
}

const GAP_PX = 6;
const EDGE_PX = 8;

/** Places `element` below or above `anchor`, where there is room, within the window. */
export function place(element: HTMLElement, options: { anchor: HTMLElement | undefined; above?: boolean; end?: boolean }) {
  function put(): void {
    const from = options.anchor?.getBoundingClientRect();
    if (from === undefined) return;
    const { offsetWidth: width, offsetHeight: height } = element;
    const over = from.top - GAP_PX - height;
    const under = from.bottom + GAP_PX;
    const fits = options.above ? over >= EDGE_PX : under + height <= window.innerHeight - EDGE_PX;
    const top = options.above ? (fits ? over : under) : fits || over < EDGE_PX ? under : over;
    const left = options.end ? from.right - width : from.left;
    element.style.left = `${Math.round(Math.max(EDGE_PX, Math.min(left, window.innerWidth - width - EDGE_PX)))}px`;
    element.style.top = `${Math.round(Math.max(EDGE_PX, Math.min(top, window.innerHeight - height - EDGE_PX)))}px`;
  }
  put();
  const watch = new ResizeObserver(put);
  watch.observe(element);
  window.addEventListener("resize", put);
  return {
    destroy() {
      watch.disconnect();
      window.removeEventListener("resize", put);
    },
  };
}
