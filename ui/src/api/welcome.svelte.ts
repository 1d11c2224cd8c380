// First-run state: whether the user has finished it, as stored by the daemon for all windows and browsers.
import { uiSettings } from "./uiSettings.svelte";
import { ApiError, get, patch } from "./client";
import type { TagsResponse } from "./types";

const KEY = "ui.welcomed";

class Welcome {
  /** `undefined` until the daemon has answered. A daemon that cannot be asked needs no first run. */
  needed = $state<boolean | undefined>(undefined);
  /** Whether the first run has just ended and its card is still to be shown. */
  fresh = $state(false);

  /** Asks the daemon. A user with models of their own needs no first run. */
  async ask(): Promise<void> {
    try {
      const settings = await uiSettings.load();
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
    // If it is not stored, the first run is shown once more.
    await patch("/app/settings", { [KEY]: true }).catch(() => {});
  }
}

export const welcome = new Welcome();
