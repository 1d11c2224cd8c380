// What an error says in the words of whoever threw it.
export function reason(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
