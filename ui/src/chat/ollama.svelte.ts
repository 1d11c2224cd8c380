// The chats of Ollama's own app: found where it usually keeps them, or where the person says, and brought by the daemon.
import { Attempt } from "../api/attempt.svelte";
import * as api from "../api/chats";

export interface OllamaApi {
  find: () => Promise<{ ollama_db?: string }>;
  bring: (path: string) => Promise<api.ChatsImported>;
}

const wire: OllamaApi = { find: api.chatsToImport, bring: (path) => api.importChats({ ollama_db: path }) };

export class OllamaChats extends Attempt {
  path = $state("");
  /** Whether it was found at its usual place; unknown while the daemon looks. */
  found = $state<boolean | undefined>(undefined);
  done = $state.raw<api.ChatsImported | undefined>(undefined);

  constructor(private readonly from: OllamaApi = wire) {
    super();
  }

  async look(): Promise<void> {
    const { ollama_db: path } = await this.from.find().catch(() => ({ ollama_db: undefined }));
    this.found = path !== undefined;
    // What was typed meanwhile is what the person wants.
    if (path !== undefined && this.path === "") this.path = path;
  }

  get ready(): boolean {
    return this.path.trim() !== "" && !this.busy;
  }

  /** True when it is done; what came is in `done` then, and why not in `error` else. */
  async bring(): Promise<boolean> {
    return this.ready && this.attempt(async () => void (this.done = await this.from.bring(this.path.trim())));
  }
}
