import { expect, it } from "vitest";
import { InspectorChoice } from "./inspectorChoice";

it("parameters are closed at first, and the choice stays", () => {
  const stored = new Map<string, string>();
  const storage = { getItem: (key: string) => stored.get(key) ?? null, setItem: (key: string, value: string) => void stored.set(key, value) };
  const choice = new InspectorChoice(() => storage);
  expect(choice.isOpen).toBe(false);
  choice.isOpen = true;
  expect(new InspectorChoice(() => storage).isOpen).toBe(true);
  choice.isOpen = false;
  expect(choice.isOpen).toBe(false);
  const blocked = new InspectorChoice(() => {
    throw new Error("storage is blocked");
  });
  blocked.isOpen = true;
  expect(blocked.isOpen).toBe(false);
});
