// Applies the last stored theme, language and sizes before the first paint. A separate file, because the page allows no inline
// script. The daemon's settings are applied later (`src/app/appearance.svelte.ts`).
(function () {
  var root = document.documentElement;
  var wanted = (navigator.language || "en").toLowerCase().indexOf("zh") === 0 ? "zh-CN" : "en";
  try {
    var stored = (JSON.parse(localStorage.getItem("cairn.ui") || "{}") || {}).values || {};
    var moreContrast = matchMedia("(prefers-contrast: more)").matches;
    var theme = stored.theme === "light" || stored.theme === "dark" ? stored.theme : undefined;
    if (stored.contrast === "high") theme = "contrast";
    else if (stored.contrast === "normal") {
      if (moreContrast && !theme) theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
    } else if (moreContrast) theme = "contrast";
    if (theme) root.dataset.theme = theme;
    if (stored.language === "en" || stored.language === "zh-CN") wanted = stored.language;
    if (stored.text_size >= 75 && stored.text_size <= 200) root.style.fontSize = stored.text_size + "%";
    if (stored.width) root.dataset.width = stored.width;
  } catch (_) {
    // Without storage, the system's preferences apply.
  }
  root.lang = wanted;
})();
