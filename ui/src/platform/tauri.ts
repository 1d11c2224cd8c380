// The window of the desktop app. It has few commands; everything else uses HTTP as in a browser. No package is needed:
// `withGlobalTauri` is off, so the internals of every Tauri window are called by their documented shape.
import type { ServerInfo, Platform, WindowChoices } from "./platform";

interface Internals {
  invoke<T>(command: string, args?: Record<string, unknown>): Promise<T>;
  transformCallback(callback: (event: { payload: unknown }) => void): number;
}

declare global {
  interface Window {
    __TAURI_INTERNALS__?: Internals;
  }
}

export function inTauri(): boolean {
  return typeof window !== "undefined" && window.__TAURI_INTERNALS__ !== undefined;
}

function invoke<T>(command: string, args?: Record<string, unknown>): Promise<T> {
  const internals = window.__TAURI_INTERNALS__;
  if (internals === undefined) return Promise.reject(new Error("not in the desktop window"));
  return internals.invoke<T>(command, args);
}

function listen(event: string, listener: (payload: unknown) => void): () => void {
  const internals = window.__TAURI_INTERNALS__;
  if (internals === undefined) return () => {};
  const handler = internals.transformCallback((message) => listener(message.payload));
  const id = invoke<number>("plugin:event|listen", { event, target: { kind: "Any" }, handler });
  return () => {
    void id.then((eventId) => invoke("plugin:event|unlisten", { event, eventId }));
  };
}

export const tauri: Platform = {
  kind: "tauri",
  server: () => invoke<ServerInfo>("server"),
  // The window gives all of its own files the policy of the interface; the daemon sends that of the frame.
  previewAddress: async () => `${(await invoke<ServerInfo>("server")).address}/ui/preview.html`,
  openExternal: (url) => invoke("open_external", { url }),
  pickFolder: async (title) => (await invoke<string | null>("pick_folder", { title })) ?? undefined,
  pickFiles: (title, extensions) => invoke<string[]>("pick_files", { title, extensions }),
  saveText: (name, text) => invoke("save_text", { name, text }),
  openLogs: () => invoke("open_logs"),
  windowChoices: () => invoke<WindowChoices>("window_choices"),
  setWindowChoices: (choices) => invoke("set_window_choices", { choices }),
  setLanguage: (language) => invoke("set_language", { language }),
  onDrop: (listener) =>
    listen("tauri://drag-drop", (payload) => {
      const paths = (payload as { paths?: string[] } | null)?.paths;
      if (paths !== undefined && paths.length > 0) listener(paths);
    }),
};
