// Sets the theme, the language and the sizes that were known last before the first paint. A file of its own, since the page allows
// no inline script. The settings of the daemon follow (`src/app/looks.svelte.ts`), mostly with the same.
(function () {
  var root = document.documentElement;
  var wanted = (navigator.language || "en").toLowerCase().indexOf("zh") === 0 ? "zh-CN" : "en";
  try {
    var known = (JSON.parse(localStorage.getItem("cairn.ui") || "{}") || {}).values || {};
    var moreContrast = matchMedia("(prefers-contrast: more)").matches;
    var theme = known.theme === "light" || known.theme === "dark" ? known.theme : undefined;
    if (known.contrast === "high") theme = "contrast";
    else if (known.contrast === "normal") {
      if (moreContrast && !theme) theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
    } else if (moreContrast) theme = "contrast";
    if (theme) root.dataset.theme = theme;
    if (known.language === "en" || known.language === "zh-CN") wanted = known.language;
    if (known.text_size >= 75 && known.text_size <= 200) root.style.fontSize = known.text_size + "%";
    if (known.width) root.dataset.width = known.width;
  } catch (_) {
    // Storage may be forbidden; what the system says holds then.
  }
  root.lang = wanted;
})();
