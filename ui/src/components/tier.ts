/** Where something is kept, near to far; `cold` is nowhere. `device` is where the model itself runs. */
export type Tier = "device" | "ram" | "ssd" | "remote" | "cold";
