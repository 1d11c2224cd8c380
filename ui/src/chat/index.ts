import { chatList } from "./list.svelte";

export { default } from "./ChatScreen.svelte";

/** Fetches the chats before somebody looks at them, so that they are drawn with the screen and not after it. */
export function ahead(): void {
  if (!chatList.loaded) void chatList.load();
}
