// Chats that go out and come in, by files.
import * as api from "../api/chats";
import { toasts } from "../components";
import { said, t } from "../i18n";
import { shell } from "../shell";
import { chatList } from "./list.svelte";

function tell(error: unknown): void {
  toasts.error(said(error));
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
    tell(error);
  }
}

export async function exportAll(): Promise<void> {
  try {
    await shell.saveText("cairn-chats.json", await api.exportChats(), "application/json");
  } catch (error) {
    tell(error);
  }
}

/** What an import has brought, in a line. */
export function imported({ chats, messages, present, skipped }: api.ChatsImported): string {
  const parts = [
    t("chat.count_chats", { chats }),
    t("chat.count_messages", { messages }),
    present > 0 && t("chat.count_present", { present }),
    skipped.length > 0 && t("chat.count_skipped", { skipped: skipped.length }),
  ];
  return parts.filter((part) => part !== false).join(t("chat.list_sep"));
}

/** The most characters of chats that go to the daemon at once: it takes no request beyond some hundred MB. */
const BATCH_CHARS = 50_000_000;

/** An export in parts that the daemon takes, each an export of some of its chats. */
export function* batches(data: api.ChatsExport, most = BATCH_CHARS): Generator<api.ChatsExport> {
  // What is no export is the daemon's to refuse.
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
    toasts.show({ text: t("chat.imported", { what: imported(sum(done)) }) });
    await chatList.load();
  } catch (error) {
    tell(error);
  }
}
