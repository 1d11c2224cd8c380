// Begins a chat with a model from any screen.
import { navigate } from "./router.svelte";

export async function chatWith(model: string): Promise<void> {
  const { screen } = await import("../chat/screen.svelte");
  navigate("chat");
  screen.begin({ model });
}
