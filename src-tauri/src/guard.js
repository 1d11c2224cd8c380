// A page that is loaded anew would lose what its user was typing. The keys for it are left to the page, which has a use for
// them, and the system's menu, which offers it, comes only where there is text to copy or to paste.
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
    const place = event.target;
    const takesText = place instanceof Element && place.closest("input, textarea, [contenteditable]") !== null;
    if (!takesText && String(getSelection()) === "") event.preventDefault();
  });
})();
