/** Where something is cached, nearest first. `device` is the memory of the loaded model, `cold` means not cached. */
export type Tier = "device" | "ram" | "ssd" | "remote" | "cold";
