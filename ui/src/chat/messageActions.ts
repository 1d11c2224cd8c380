// Actions on one message: a copy of the chat up to it, and its deletion.
import * as api from "../api/chats";
import { reportError } from "../app/reportError";
import { navigate } from "../app/router.svelte";
import { toasts } from "../components";
import { t } from "../i18n";
import type { Conversation } from "./conversation.svelte";
import { chatList } from "./list.svelte";

/** Copies the messages up to one into a new chat, and shows it. */
export async function fork({ id, chat }: Conversation, message: api.Message): Promise<void> {
  const title = chat?.title || t("chat.untitled");
  try {
    const copy = await api.forkChat(id, { message: message.id, title: t("chat.fork_title", { title }) });
    chatList.apply({ chat: copy });
    navigate("chat", copy.id);
  } catch (error) {
    reportError(error);
  }
}

/** Deletes a message and all that follow it, and offers undo. */
export async function remove(conversation: Conversation, message: api.Message): Promise<void> {
  const deleted = await conversation.remove(message);
  if (deleted === undefined) return;
  const count = deleted.messages.length;
  toasts.show({ text: t("chat.deleted_messages", { count }), action: { label: t("common.undo"), run: () => void undo(conversation, deleted) } });
}

/** The chat may not be shown any more. */
async function undo(conversation: Conversation, deleted: api.DeletedMessages): Promise<void> {
  if (!(await conversation.restore(deleted)) && conversation.refused !== undefined) reportError(conversation.refused);
}
