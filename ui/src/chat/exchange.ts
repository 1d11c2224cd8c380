// Chats that go out and come in, by files.
import * as api from "../api/chats";
import { toasts } from "../components";
import { t } from "../i18n";
import { shell } from "../shell";
import { chatList } from "./list.svelte";

function told(error: unknown): void {
  toasts.error(error instanceof Error ? error.message : String(error));
}

/** A file name of a title: what no system forbids. */
export function fileName(title: string, ending: string): string {
  const plain = title
    .replace(/[\\/:*?"<>|\p{Cc}]+/gu, " ")
    .replace(/\s+/g, " ")
    .trim()
    .replace(/[. ]+$/, "")
    .slice(0, 80);
  return `${plain === "" ? "chat" : plain}.${ending}`;
}

export async function exportOne(id: string, title: string, format: "json" | "md"): Promise<void> {
  try {
    const text = await api.exportChat(id, format);
    await shell.saveText(fileName(title, format), text, format === "md" ? "text/markdown" : "application/json");
  } catch (error) {
    told(error);
  }
}

export async function exportAll(): Promise<void> {
  try {
    await shell.saveText("cairn-chats.json", await api.exportChats(), "application/json");
  } catch (error) {
    told(error);
  }
}

export async function importFile(file: File): Promise<void> {
  try {
    let data: unknown;
    try {
      data = JSON.parse(await file.text());
    } catch {
      toasts.error(t("chat.import_no_json", { name: file.name }));
      return;
    }
    const done = await api.importChats({ export: data });
    toasts.show({ text: t("chat.imported", { chats: done.chats, present: done.present, skipped: done.skipped.length }) });
    await chatList.load();
  } catch (error) {
    told(error);
  }
}
