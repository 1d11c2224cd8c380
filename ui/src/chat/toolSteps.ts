// Steps of an answer: their texts, and the calls that wait or run.
import type { Call, Message } from "../api/chats";

/** The texts of all steps and of the answer, in the order of the thread. */
export function allText({ steps, content }: Pick<Message, "steps" | "content">): string {
  return [...(steps ?? []).map((step) => step.content), content].filter((text) => text !== "").join("\n\n");
}

export function calls({ steps }: Pick<Message, "steps">): Call[] {
  return (steps ?? []).flatMap((step) => step.calls);
}

/** The first call that waits for the user, if the answer is in progress. */
export function waitingCall(message: Message | undefined): Call | undefined {
  return message?.state === "answering" ? calls(message).find((call) => call.state === "waiting") : undefined;
}

/** Whether the model waits for a call. */
export function isCalling(message: Pick<Message, "steps">): boolean {
  return calls(message).some(({ state }) => state === "waiting" || state === "running");
}
