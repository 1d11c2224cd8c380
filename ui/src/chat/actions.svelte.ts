// Actions on a chat from the list or the header. Actions that can be undone run at once and offer undo; others ask first.
import * as api from "../api/chats";
import { navigate, router } from "../app/router.svelte";
import { toasts } from "../components";
import { t } from "../i18n";
import { chatList } from "./list.svelte";
import { reportError } from "../app/reportError";

/** An open dialog: a new title, a folder, or a permanent deletion. */
class OpenDialog {
  what = $state.raw<{ act: "rename" | "move" | "destroy"; chat: api.ChatSummary } | undefined>(undefined);
}

export const dialog = new OpenDialog();

async function trying(act: () => Promise<unknown>): Promise<boolean> {
  try {
    await act();
    return true;
  } catch (error) {
    reportError(error);
    return false;
  }
}

function shows(chat: api.ChatSummary): boolean {
  return router.panel === "chat" && router.rest[0] === chat.id;
}

export async function change(chat: api.ChatSummary, changes: api.ChatChange): Promise<void> {
  await trying(async () => chatList.apply({ chat: await api.changeChat(chat.id, changes) }));
}

export function rename(chat: api.ChatSummary): void {
  dialog.what = { act: "rename", chat };
}

export function move(chat: api.ChatSummary): void {
  dialog.what = { act: "move", chat };
}

export function destroy(chat: api.ChatSummary): void {
  dialog.what = { act: "destroy", chat };
}

export async function pin(chat: api.ChatSummary, pinned: boolean): Promise<void> {
  await change(chat, { pinned });
}

export async function restore(chat: api.ChatSummary): Promise<void> {
  await trying(async () => {
    await api.restoreChat(chat.id);
    await chatList.show({});
    navigate("chat", chat.id);
  });
}

export async function toTrash(chat: api.ChatSummary): Promise<void> {
  const shown = shows(chat);
  if (!(await trying(() => api.deleteChat(chat.id, chat.temporary)))) return;
  chatList.apply({ removed: chat.id });
  if (shown) navigate("chat");
  if (chat.temporary) return;
  toasts.show({ text: t("chat.deleted", { title: chat.title || t("chat.untitled") }), action: { label: t("common.undo"), run: () => void undo(chat, shown) } });
}

async function undo(chat: api.ChatSummary, shown: boolean): Promise<void> {
  await trying(async () => {
    chatList.apply({ chat: await api.restoreChat(chat.id) });
    if (shown) navigate("chat", chat.id);
  });
}

export async function destroyNow(chat: api.ChatSummary): Promise<void> {
  const shown = shows(chat);
  if (!(await trying(() => api.deleteChat(chat.id, true)))) return;
  await chatList.load();
  if (shown) navigate("chat");
}
