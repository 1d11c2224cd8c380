// What only a desktop window can do, behind one interface; `browser.ts` and `tauri.ts` implement it.
// No other part of the UI depends on where it runs.

/** The daemon's address and token. A browser has no `token`; it exchanges a ticket instead. */
export interface ServerInfo {
  address: string;
  token?: string;
}

/** Integrations of the desktop app with the system; a browser has none. */
export interface WindowChoices {
  autostart: boolean;
}

export interface Platform {
  kind: "browser" | "tauri";
  server(): Promise<ServerInfo>;
  /** Address of the frame of previews, which needs a server that sends its policy. */
  previewAddress(): Promise<string>;
  /** Opens an external page; only after the user clicked a link. */
  openExternal(url: string): Promise<void>;
  /** Lets the user pick a folder; `undefined` if nothing was picked or there is no such dialog. */
  pickFolder(title: string): Promise<string | undefined>;
  /** Lets the user pick model files; returns their paths. */
  pickFiles(title: string, extensions: string[]): Promise<string[]>;
  /** Saves text to a file that the user names. */
  saveText(name: string, text: string, type: string): Promise<void>;
  openLogs(): Promise<void>;
  windowChoices(): Promise<WindowChoices | undefined>;
  setWindowChoices(choices: Partial<WindowChoices>): Promise<void>;
  /** Sets the language of the tray and the system dialogs. */
  setLanguage(language: string): Promise<void>;
  /** Calls back with the paths of files dropped on the window. A browser does not know paths and never calls. */
  onDrop(listener: (paths: string[]) => void): () => void;
}
