// The list of chats: pinned ones, then by age; folders, trash, search. Kept right by what the daemon tells of changes.
import * as api from "../api/chats";
import { dayNumber, said } from "../i18n";

/** The first page fills the window, those after it come before they are seen. */
const FIRST_PAGE = 80;
const PAGE = 400;

export type Age = "today" | "week" | "older";
export interface Group {
  id: "pinned" | "temporary" | Age;
  chats: readonly api.ChatSummary[];
}

/** Where a chat of that time stands in the list. */
export function ageOf(time: string, now: Date): Age {
  const days = dayNumber(now) - dayNumber(new Date(time));
  return days <= 0 ? "today" : days < 7 ? "week" : "older";
}

/** A list with one chat put in its place, the last changed first. */
export function placed(chats: readonly api.ChatSummary[], chat: api.ChatSummary): api.ChatSummary[] {
  const rest = chats.filter((one) => one.id !== chat.id);
  const at = rest.findIndex((one) => one.updated_at < chat.updated_at);
  return at < 0 ? [...rest, chat] : rest.toSpliced(at, 0, chat);
}

export class ChatList {
  pinned = $state.raw<readonly api.ChatSummary[]>([]);
  chats = $state.raw<readonly api.ChatSummary[]>([]);
  /** Chats that are only in memory; no folder and no trash has them. */
  temporary = $state.raw<readonly api.ChatSummary[]>([]);
  folders = $state.raw<readonly api.ChatFolder[]>([]);
  folder = $state<string | undefined>(undefined);
  trash = $state(false);
  loaded = $state(false);
  failed = $state.raw<string | undefined>(undefined);
  query = $state("");
  hits = $state.raw<readonly api.ChatHit[] | undefined>(undefined);
  #next = $state.raw<string | undefined>(undefined);
  #searching: AbortController | undefined;
  #more: Promise<void> | undefined;
  /** Counts the lists that were asked for. */
  #asked = 0;

  groups: readonly Group[] = $derived.by(() => {
    const now = new Date();
    const by: Record<Age, api.ChatSummary[]> = { today: [], week: [], older: [] };
    for (const chat of this.chats) by[ageOf(chat.updated_at, now)].push(chat);
    const apart = this.folder === undefined && !this.trash;
    const all: Group[] = [
      { id: "temporary", chats: apart ? this.temporary : [] },
      { id: "pinned", chats: this.pinned },
      ...(["today", "week", "older"] as const).map((id) => ({ id, chats: by[id] })),
    ];
    return all.filter((group) => group.chats.length > 0);
  });

  warmths: Record<api.Warmth, number> = $derived.by(() => {
    const counts = { hot: 0, warm: 0, disk: 0, cold: 0 };
    for (const chat of [...this.pinned, ...this.chats]) counts[chat.warmth] += 1;
    return counts;
  });

  get hasMore(): boolean {
    return this.#next !== undefined;
  }

  async load(): Promise<void> {
    const turn = (this.#asked += 1);
    try {
      const folder = this.folder === undefined ? {} : { folder: this.folder };
      const asked = { limit: FIRST_PAGE, ...folder, ...(this.trash ? { trash: true } : {}) };
      const [page, temporary] = await Promise.all([api.listChats(asked), api.listChats({ temporary: true })]);
      // What was asked for meanwhile is to be shown, and may have come before this.
      if (turn !== this.#asked) return;
      this.temporary = temporary.chats;
      this.pinned = page.pinned;
      this.chats = page.chats;
      this.folders = page.folders;
      this.#next = page.next;
      this.failed = undefined;
    } catch (error) {
      if (turn === this.#asked) this.failed = said(error);
    } finally {
      this.loaded = true;
    }
  }

  /** The next page, when the end of the list is near. */
  more(): Promise<void> {
    const after = this.#next;
    if (after === undefined) return Promise.resolve();
    const folder = this.folder === undefined ? {} : { folder: this.folder };
    this.#more ??= api
      .listChats({ limit: PAGE, after, ...folder, ...(this.trash ? { trash: true } : {}) })
      .then((page) => {
        if (this.#next !== after) return;
        const here = new Set(this.chats.map((chat) => chat.id));
        this.chats = [...this.chats, ...page.chats.filter((chat) => !here.has(chat.id))];
        this.#next = page.next;
      })
      .catch(() => {})
      .finally(() => (this.#more = undefined));
    return this.#more;
  }

  show(where: { folder?: string | undefined; trash?: boolean }): Promise<void> {
    this.folder = where.folder;
    this.trash = where.trash ?? false;
    return this.load();
  }

  /** What the daemon told. */
  heard(event: api.ChatEvent): void {
    if (event.missed !== undefined) void this.load();
    if (event.removed !== undefined) {
      // A chat that leaves the list comes into the trash.
      if (this.trash) void this.load();
      else this.#take(event.removed);
    }
    if (event.chat !== undefined) this.#put(event.chat);
  }

  find(id: string | undefined): api.ChatSummary | undefined {
    return [this.temporary, this.pinned, this.chats].flatMap((chats) => chats.find((chat) => chat.id === id) ?? [])[0];
  }

  #put(chat: api.ChatSummary): void {
    if (chat.temporary) {
      this.temporary = placed(this.temporary, chat);
      return;
    }
    const here = (chat.deleted_at !== undefined) === this.trash && (this.folder === undefined || chat.folder === this.folder);
    if (chat.folder !== undefined && !this.folders.some((one) => one.name === chat.folder)) {
      this.folders = [...this.folders, { name: chat.folder, chats: 1 }].sort((a, b) => a.name.localeCompare(b.name));
    }
    if (!here) {
      this.#take(chat.id);
    } else if (chat.pinned && this.folder === undefined && !this.trash) {
      this.pinned = placed(this.pinned, chat);
      this.chats = this.chats.filter((one) => one.id !== chat.id);
    } else {
      this.chats = placed(this.chats, chat);
      this.pinned = this.pinned.filter((one) => one.id !== chat.id);
    }
  }

  #take(id: string): void {
    this.temporary = this.temporary.filter((chat) => chat.id !== id);
    this.pinned = this.pinned.filter((chat) => chat.id !== id);
    this.chats = this.chats.filter((chat) => chat.id !== id);
  }

  /** Looks for words in all chats; an empty text ends the search. */
  async search(text: string): Promise<void> {
    this.#searching?.abort();
    this.query = text;
    if (text.trim() === "") {
      this.hits = undefined;
      return;
    }
    const abort = new AbortController();
    this.#searching = abort;
    try {
      const { hits } = await api.searchChats(text, 50, abort.signal);
      if (!abort.signal.aborted) this.hits = hits;
    } catch (error) {
      if (!abort.signal.aborted) this.failed = said(error);
    }
  }
}

export const chatList = new ChatList();
