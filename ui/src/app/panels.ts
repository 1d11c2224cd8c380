// The screens: one row each. Route, entry in the rail and shortcut follow from the row; a view is loaded when it is shown.
import Boxes from "@lucide/svelte/icons/boxes";
import Cpu from "@lucide/svelte/icons/cpu";
import Layers from "@lucide/svelte/icons/layers";
import MessageSquare from "@lucide/svelte/icons/message-square";
import RadioTower from "@lucide/svelte/icons/radio-tower";
import Settings2 from "@lucide/svelte/icons/settings-2";
import type { Component } from "svelte";

/** What a screen gets: the parts of the address after its id, `["discover"]` of `#/models/discover`. */
export interface PanelProps {
  route: string[];
}

/** What is loaded of a screen. */
interface Loaded {
  /** A view that has no places within takes no props. */
  default: Component<PanelProps> | Component<Record<string, never>>;
  /** Fetches what it shows first, while nobody waits for it. */
  ahead?: () => void;
}

export interface Panel {
  id: string;
  /** Key of its name. */
  title: string;
  icon: Component<{ class?: string }>;
  /** At the foot of the rail. */
  foot?: boolean;
  view: () => Promise<Loaded>;
}

export const PANELS: readonly Panel[] = [
  { id: "chat", title: "shell.chat", icon: MessageSquare, view: () => import("../chat") },
  { id: "models", title: "shell.models", icon: Boxes, view: () => import("../panels/models") },
  { id: "hardware", title: "shell.hardware", icon: Cpu, view: () => import("../panels/hardware") },
  { id: "cache", title: "shell.cache", icon: Layers, view: () => import("../panels/cache") },
  { id: "server", title: "shell.server", icon: RadioTower, view: () => import("../panels/server") },
  { id: "settings", title: "shell.settings", icon: Settings2, foot: true, view: () => import("../panels/settings") },
];
