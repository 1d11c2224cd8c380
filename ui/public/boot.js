// Sets the chosen theme and language before the first paint. A file of its own, since the page allows no inline script.
(function () {
  try {
    var theme = localStorage.getItem("cairn.theme");
    if (theme === "light" || theme === "dark" || theme === "contrast") document.documentElement.dataset.theme = theme;
    var language = localStorage.getItem("cairn.language");
    if (language) document.documentElement.lang = language;
  } catch (_) {
    // Storage may be forbidden; the system's theme holds then.
  }
})();
