import { browser } from "./browser";
import type { Platform } from "./platform";
import { inTauri, tauri } from "./tauri";

export type { ServerInfo, Platform, WindowChoices } from "./platform";

export const platform: Platform = inTauri() ? tauri : browser;
