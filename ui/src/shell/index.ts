import { browser } from "./browser";
import type { Shell } from "./shell";
import { inTauri, tauri } from "./tauri";

export type { ServerInfo, Shell, WindowChoices } from "./shell";

export const shell: Shell = inTauri() ? tauri : browser;
