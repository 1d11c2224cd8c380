// Whether the first run is over: the daemon remembers it for all windows and browsers of its user.
import { choices } from "./choices.svelte";
import { ApiError, get, patch } from "./client";
import type { TagsResponse } from "./types";

const KEY = "ui.welcomed";

class Welcome {
  /** Unknown until the daemon was asked; a daemon that cannot tell has been welcomed. */
  needed = $state<boolean | undefined>(undefined);
  /** Whether the person came through the first run just now, and has not been told the rest. */
  fresh = $state(false);

  /** Asks. Whoever has models of their own here needs no welcome. */
  async ask(): Promise<void> {
    try {
      const settings = await choices.load();
      const setting = settings.find((one) => one.key === KEY);
      if (setting === undefined || setting.value === true) {
        this.needed = false;
        return;
      }
      const { models } = await get<TagsResponse>("/api/tags");
      this.needed = models.every((model) => model.origin === "built in");
    } catch (error) {
      this.needed = false;
      if (!(error instanceof ApiError)) throw error;
    }
  }

  async finish(): Promise<void> {
    this.needed = false;
    this.fresh = true;
    // Were it not written, the welcome would be seen once more, and no harm done.
    await patch("/app/settings", { [KEY]: true }).catch(() => {});
  }
}

export const welcome = new Welcome();
