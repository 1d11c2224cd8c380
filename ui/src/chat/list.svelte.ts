// The list of chats: pinned ones, then by age; folders, trash, search. Updated by the daemon's events.
import * as api from "../api/chats";
import type { ErrorBody } from "../api/types";
import { dayNumber } from "../i18n";

/** The first page fills the window; later pages are loaded before they are visible. */
const FIRST_PAGE = 80;
const PAGE = 400;

export type Age = "today" | "week" | "older";
export interface Group {
  id: "pinned" | "temporary" | Age;
  chats: readonly api.ChatSummary[];
}

/** Index of a chat of that time in the list. */
export function ageOf(time: string, now: Date): Age {
  const days = dayNumber(now) - dayNumber(new Date(time));
  return days <= 0 ? "today" : days < 7 ? "week" : "older";
}

/** Inserts or moves a chat in a list that is sorted by last change, newest first. */
export function placed(chats: readonly api.ChatSummary[], chat: api.ChatSummary): api.ChatSummary[] {
  const rest = chats.filter((one) => one.id !== chat.id);
  const at = rest.findIndex((one) => one.updated_at < chat.updated_at);
  return at < 0 ? [...rest, chat] : rest.toSpliced(at, 0, chat);
}

export class ChatList {
  pinned = $state.raw<readonly api.ChatSummary[]>([]);
  chats = $state.raw<readonly api.ChatSummary[]>([]);
  /** Temporary chats, which are in no folder and never in the trash. */
  temporary = $state.raw<readonly api.ChatSummary[]>([]);
  folders = $state.raw<readonly api.ChatFolder[]>([]);
  folder = $state<string | undefined>(undefined);
  trash = $state(false);
  /** Notices of the server: a repair, or a failed erasure. */
  notices = $state.raw<readonly ErrorBody[]>([]);
  loaded = $state(false);
  failed = $state.raw<unknown>(undefined);
  query = $state("");
  hits = $state.raw<readonly api.ChatHit[] | undefined>(undefined);
  #next = $state.raw<string | undefined>(undefined);
  #searching: AbortController | undefined;
  #more: Promise<void> | undefined;
  /** Number of list requests. */
  #requests = 0;

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

  /** Numbers of listed chats by the place of their cached rows. The trash and folders do not change them. */
  warmths = $state.raw<Record<api.Warmth, number>>({ hot: 0, warm: 0, disk: 0, cold: 0 });

  get hasMore(): boolean {
    return this.#next !== undefined;
  }

  async load(): Promise<void> {
    const turn = (this.#requests += 1);
    try {
      const folder = this.folder === undefined ? {} : { folder: this.folder };
      const request = { limit: FIRST_PAGE, ...folder, ...(this.trash ? { trash: true } : {}) };
      const [page, temporary] = await Promise.all([api.listChats(request), api.listChats({ temporary: true })]);
      // A newer request decides what is shown; its answer may already have arrived.
      if (turn !== this.#requests) return;
      this.temporary = temporary.chats;
      this.pinned = page.pinned;
      this.chats = page.chats;
      this.folders = page.folders;
      this.notices = page.notices ?? [];
      this.#next = page.next;
      this.#count();
      this.failed = undefined;
    } catch (error) {
      if (turn === this.#requests) this.failed = error;
    } finally {
      this.loaded = true;
    }
  }

  /** Loads the next page, when the end of the list is near. */
  more(): Promise<void> {
    const after = this.#next;
    if (after === undefined) return Promise.resolve();
    const folder = this.folder === undefined ? {} : { folder: this.folder };
    this.#more ??= api
      .listChats({ limit: PAGE, after, ...folder, ...(this.trash ? { trash: true } : {}) })
      .then((page) => {
        if (this.#next !== after) return;
        const loadedIds = new Set(this.chats.map((chat) => chat.id));
        this.chats = [...this.chats, ...page.chats.filter((chat) => !loadedIds.has(chat.id))];
        this.#next = page.next;
        this.#count();
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

  /** Applies an event of the daemon. */
  apply(event: api.ChatEvent): void {
    if (event.missed !== undefined) void this.load();
    if (event.removed !== undefined) {
      // A chat that leaves the list goes to the trash.
      if (this.trash) void this.load();
      else this.#take(event.removed);
    }
    if (event.chat !== undefined) this.#put(event.chat);
    this.#count();
  }

  #count(): void {
    if (this.trash || this.folder !== undefined) return;
    const counts = { hot: 0, warm: 0, disk: 0, cold: 0 };
    for (const chat of [...this.pinned, ...this.chats]) counts[chat.warmth] += 1;
    this.warmths = counts;
  }

  find(id: string | undefined): api.ChatSummary | undefined {
    return [this.temporary, this.pinned, this.chats].flatMap((chats) => chats.find((chat) => chat.id === id) ?? [])[0];
  }

  #put(chat: api.ChatSummary): void {
    if (chat.temporary) {
      this.temporary = placed(this.temporary, chat);
      return;
    }
    const isListed = (chat.deleted_at !== undefined) === this.trash && (this.folder === undefined || chat.folder === this.folder);
    if (chat.folder !== undefined && !this.folders.some((one) => one.name === chat.folder)) {
      this.folders = [...this.folders, { name: chat.folder, chats: 1 }].sort((a, b) => a.name.localeCompare(b.name));
    }
    if (!isListed) {
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

  /** Searches all chats; an empty text ends the search. */
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
      if (!abort.signal.aborted) this.failed = error;
    }
  }
}

export const chatList = new ChatList();
