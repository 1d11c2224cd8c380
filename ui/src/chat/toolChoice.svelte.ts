// Whether tools are offered with the next messages, which a button of the composer sets. It applies to this browser or window.
const KEY = "cairn.tools";
const OFF = "off";

function storedOff(): boolean {
  try {
    return localStorage.getItem(KEY) === OFF;
  } catch {
    return false;
  }
}

export class ToolChoice {
  #off = $state(storedOff());

  get off(): boolean {
    return this.#off;
  }

  set off(off: boolean) {
    this.#off = off;
    try {
      if (off) localStorage.setItem(KEY, OFF);
      else localStorage.removeItem(KEY);
    } catch {
      // The choice applies to this page only.
    }
  }

  /** Its part of a request; without one, tools are offered. */
  get request(): { tools?: false } {
    return this.#off ? { tools: false } : {};
  }
}

export const toolChoice = new ToolChoice();
