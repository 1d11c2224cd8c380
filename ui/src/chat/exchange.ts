// Export and import of chats as files.
import * as api from "../api/chats";
import { toasts } from "../components";
import { t } from "../i18n";
import { platform } from "../platform";
import { chatList } from "./list.svelte";
import { reportError } from "../app/reportError";

function showError(error: unknown): void {
  reportError(error);
}

/** A file name for a title, valid on every system. */
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
    await platform.saveText(fileName(title, format), text, format === "md" ? "text/markdown" : "application/json");
  } catch (error) {
    showError(error);
  }
}

export async function exportAll(): Promise<void> {
  try {
    await platform.saveText("cairn-chats.json", await api.exportChats(), "application/json");
  } catch (error) {
    showError(error);
  }
}

/** The result of an import in a line. */
export function importSummary({ chats, present, skipped }: api.ChatsImported): string {
  const parts = [
    t("chat.imported", { chats }),
    present > 0 && t("chat.count_present", { present }),
    skipped.length > 0 && t("chat.count_skipped", { skipped: skipped.length }),
  ];
  return parts.filter((part) => part !== false).join(" ");
}

/** Most characters of chats in one request: the daemon limits requests to some hundred MB. */
const BATCH_CHARS = 50_000_000;

/** Splits an export into exports of some of its chats. */
export function* batches(data: api.ChatsExport, most = BATCH_CHARS): Generator<api.ChatsExport> {
  // The daemon reports an invalid export.
  const chats = Array.isArray(data?.chats) ? data.chats : [];
  let from = 0;
  let chars = 0;
  for (const [at, chat] of chats.entries()) {
    const size = JSON.stringify(chat).length;
    if (at > from && chars + size > most) {
      yield { ...data, chats: chats.slice(from, at) };
      [from, chars] = [at, 0];
    }
    chars += size;
  }
  yield from === 0 ? data : { ...data, chats: chats.slice(from) };
}

function sum(all: readonly api.ChatsImported[]): api.ChatsImported {
  const of = (count: (one: api.ChatsImported) => number): number => all.reduce((before, one) => before + count(one), 0);
  return { chats: of((one) => one.chats), messages: of((one) => one.messages), present: of((one) => one.present), skipped: all.flatMap((one) => one.skipped) };
}

export async function importFile(file: File): Promise<void> {
  try {
    let data: api.ChatsExport;
    try {
      data = JSON.parse(await file.text());
    } catch {
      toasts.error(t("chat.import_no_json", { name: file.name }));
      return;
    }
    const done: api.ChatsImported[] = [];
    for (const batch of batches(data)) done.push(await api.importChats({ export: batch }));
    toasts.show({ text: importSummary(sum(done)) });
    await chatList.load();
  } catch (error) {
    showError(error);
  }
}
