// Reloading the page would lose typed text. The reload keys only reach the page, which uses them, and the context menu
// opens only where there is text to copy or to paste.
(() => {
  addEventListener(
    "keydown",
    (event) => {
      const withR = (event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "r";
      if (withR || event.key === "F5") event.preventDefault();
    },
    true,
  );
  addEventListener("contextmenu", (event) => {
    const target = event.target;
    const isTextField = target instanceof Element && target.closest("input, textarea, [contenteditable]") !== null;
    if (!isTextField && String(getSelection()) === "") event.preventDefault();
  });
})();
