import { chatList } from "./list.svelte";

export { default } from "./ChatScreen.svelte";

/** Prefetches the chats, so that they are drawn with the screen and not after it. */
export function ahead(): void {
  if (!chatList.loaded) void chatList.load();
}
