// Import of the chats of the Ollama app, from its usual location or a path that the user enters.
import { Attempt } from "../api/attempt.svelte";
import * as api from "../api/chats";

export interface OllamaApi {
  find: () => Promise<{ ollama_db?: string }>;
  importFrom: (path: string) => Promise<api.ChatsImported>;
}

const wire: OllamaApi = { find: api.chatsToImport, importFrom: (path) => api.importChats({ ollama_db: path }) };

export class OllamaChats extends Attempt {
  path = $state("");
  /** Whether the database is at its usual location; `undefined` while the daemon looks. */
  found = $state<boolean | undefined>(undefined);
  done = $state.raw<api.ChatsImported | undefined>(undefined);

  constructor(private readonly from: OllamaApi = wire) {
    super();
  }

  async look(): Promise<void> {
    const { ollama_db: path } = await this.from.find().catch(() => ({ ollama_db: undefined }));
    this.found = path !== undefined;
    // A path typed meanwhile takes precedence.
    if (path !== undefined && this.path === "") this.path = path;
  }

  get ready(): boolean {
    return this.path.trim() !== "" && !this.busy;
  }

  /** Imports the chats. Returns whether it succeeded; the result is in `done`, the cause of a failure in `error`. */
  async importChats(): Promise<boolean> {
    return this.ready && this.attempt(async () => void (this.done = await this.from.importFrom(this.path.trim())));
  }
}
