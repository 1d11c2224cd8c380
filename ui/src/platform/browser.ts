// The page in a browser, served by the daemon at `/ui/`.
import type { Platform } from "./platform";

function nothing(): () => void {
  return () => {};
}

export const browser: Platform = {
  kind: "browser",
  server: async () => ({ address: location.origin }),
  previewAddress: async () => new URL("preview.html", document.baseURI).href,
  openExternal: async (url) => {
    window.open(url, "_blank", "noopener,noreferrer");
  },
  pickFolder: async () => undefined,
  pickFiles: async () => [],
  saveText: async (name, text, type) => {
    const url = URL.createObjectURL(new Blob([text], { type }));
    const link = document.createElement("a");
    link.href = url;
    link.download = name;
    link.click();
    // The download has started; the object is no longer needed.
    setTimeout(() => URL.revokeObjectURL(url), 10_000);
  },
  openLogs: async () => {},
  windowChoices: async () => undefined,
  setWindowChoices: async () => {},
  setLanguage: async () => {},
  onDrop: nothing,
};
