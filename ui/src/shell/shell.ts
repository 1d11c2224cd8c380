// What only a window of the system can do, behind one interface; `browser.ts` and `tauri.ts` are its two sides.
// Nothing else in the UI knows where it runs.

/** Where the daemon is and what opens `/app`. `token` is absent in a browser, where a ticket is exchanged instead. */
export interface ServerInfo {
  address: string;
  token?: string;
}

/** What the system has of the desktop app; a browser has none. */
export interface WindowChoices {
  autostart: boolean;
}

export interface Shell {
  kind: "browser" | "tauri";
  server(): Promise<ServerInfo>;
  /** Opens a page outside; only after the person clicked a link. */
  openExternal(url: string): Promise<void>;
  /** A folder of this machine; `undefined` when nothing was chosen or there is no such dialog. */
  pickFolder(title: string): Promise<string | undefined>;
  /** Model files of this machine, by path. */
  pickFiles(title: string, extensions: string[]): Promise<string[]>;
  /** Writes text to a file that the person names. */
  saveText(name: string, text: string, type: string): Promise<void>;
  openLogs(): Promise<void>;
  windowChoices(): Promise<WindowChoices | undefined>;
  setWindowChoices(choices: Partial<WindowChoices>): Promise<void>;
  /** Has the tray and the system's dialogs speak as the page does. */
  setLanguage(language: string): Promise<void>;
  /** Paths of files dropped on the window; a browser tells names only and never calls. */
  onDrop(listener: (paths: string[]) => void): () => void;
}
