// The screens, one row each. Routes, rail entries and shortcuts follow from the rows; a view is loaded when it is shown.
import Boxes from "@lucide/svelte/icons/boxes";
import Cpu from "@lucide/svelte/icons/cpu";
import Files from "@lucide/svelte/icons/files";
import Layers from "@lucide/svelte/icons/layers";
import MessageSquare from "@lucide/svelte/icons/message-square";
import RadioTower from "@lucide/svelte/icons/radio-tower";
import Settings2 from "@lucide/svelte/icons/settings-2";
import type { Component } from "svelte";

/** Props of a screen: the parts of the address after its id, `["discover"]` of `#/models/discover`. */
export interface PanelProps {
  route: string[];
}

/** The module of a screen. */
interface Loaded {
  /** A view without routes of its own takes no props. */
  default: Component<PanelProps> | Component<Record<string, never>>;
  /** Prefetches its data. */
  ahead?: () => void;
}

export interface Panel {
  id: string;
  /** i18n key of its name. */
  title: string;
  icon: Component<{ class?: string }>;
  /** Shown at the end of the rail. */
  foot?: boolean;
  view: () => Promise<Loaded>;
}

export const PANELS: readonly Panel[] = [
  { id: "chat", title: "shell.chat", icon: MessageSquare, view: () => import("../chat") },
  { id: "models", title: "shell.models", icon: Boxes, view: () => import("../panels/models") },
  { id: "documents", title: "shell.documents", icon: Files, view: () => import("../panels/documents") },
  { id: "hardware", title: "shell.hardware", icon: Cpu, view: () => import("../panels/hardware") },
  { id: "cache", title: "shell.cache", icon: Layers, view: () => import("../panels/cache") },
  { id: "server", title: "shell.server", icon: RadioTower, view: () => import("../panels/server") },
  { id: "settings", title: "shell.settings", icon: Settings2, foot: true, view: () => import("../panels/settings") },
];
