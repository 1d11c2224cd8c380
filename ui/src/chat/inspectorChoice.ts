// Whether the parameters are shown beside a chat. New users see the chat alone; the choice stays in this browser.
const KEY = "cairn.inspector";

export class InspectorChoice {
  constructor(private readonly storage: () => Pick<Storage, "getItem" | "setItem"> = () => localStorage) {}

  get isOpen(): boolean {
    try {
      return this.storage().getItem(KEY) === "open";
    } catch {
      return false;
    }
  }

  set isOpen(open: boolean) {
    try {
      this.storage().setItem(KEY, open ? "open" : "closed");
    } catch {
      // The choice applies to this page only.
    }
  }
}

export const inspector = new InspectorChoice();
