// The list of remotes with their health, the form for a new one, checks and removal.
import { Attempt } from "../../api/attempt.svelte";
import { remotes, type AddRemoteRequest, type Remote, type RemotesApi } from "../../api/remotes";
import { isPlain, problemOf, type RemoteField, type RemoteForm, type RemoteProblem } from "./remoteProblem";

/** Interval of the list. The daemon checks remotes every 15 s, and counts requests at any time. */
const LIST_MS = 5_000;

export class Remotes extends Attempt {
  list = $state.raw<readonly Remote[] | undefined>(undefined);
  name = $state("");
  url = $state("");
  key = $state("");
  /** Whether the key may be sent unencrypted. */
  insecure = $state(false);
  /** Name of the remote that is checked, or `all`. */
  checking = $state.raw<{ name: string } | "all" | undefined>(undefined);
  #tried = $state.raw<{ problem: RemoteProblem; form: RemoteForm } | undefined>(undefined);

  constructor(private readonly from: RemotesApi = remotes) {
    super();
  }

  /** Loads the list, and again from time to time while the page is visible. Returns a function that ends this. */
  start(): () => void {
    void this.load();
    const timer = setInterval(() => document.hidden || void this.refresh(), LIST_MS);
    return () => clearInterval(timer);
  }

  async load(): Promise<void> {
    await this.attempt(async () => void (this.list = (await this.from.list()).remotes));
  }

  /** Loads the list again. Changes made meanwhile have a newer list. */
  async refresh(): Promise<void> {
    if (this.list === undefined) return this.load();
    const before = this.list;
    const { remotes } = await this.from.list().catch(() => ({ remotes: before }));
    if (this.list === before) this.list = remotes;
  }

  get form(): RemoteForm {
    return { name: this.name.trim(), url: this.url.trim(), key: this.key.trim(), insecure: this.insecure };
  }

  get ready(): boolean {
    return this.form.name !== "" && this.form.url !== "" && !this.busy;
  }

  /** Whether the key would be sent unencrypted to another machine. */
  get isKeyPlain(): boolean {
    return this.form.key !== "" && isPlain(this.form.url);
  }

  /** The problem of the last attempt, until a change of the form may have solved it. */
  get problem(): RemoteProblem | undefined {
    if (this.#tried === undefined) return undefined;
    const { problem, form } = this.#tried;
    if (problem.isKeyPlain && this.insecure) return undefined;
    const fields = [problem.field, problem.cure?.field ?? problem.field];
    return fields.every((field) => form[field] === this.form[field]) ? problem : undefined;
  }

  /** The error of the last attempt that no field caused. */
  get otherError(): unknown {
    return this.#tried === undefined ? this.error : undefined;
  }

  /** Adds the remote of the form. Returns it, or `undefined` if that failed. */
  async add(): Promise<Remote | undefined> {
    if (!this.ready) return undefined;
    const { form } = this;
    const request: AddRemoteRequest = { name: form.name, url: form.url, ...(form.key === "" ? {} : { key: form.key, insecure: this.isKeyPlain && form.insecure }) };
    this.#tried = undefined;
    const done = await this.attempt(async () => void (this.list = (await this.from.add(request)).remotes));
    if (done) return this.list?.find((remote) => remote.name === form.name);
    const problem = problemOf(this.error, form, this.list?.map((remote) => remote.name) ?? []);
    this.#tried = problem && { problem, form };
    return undefined;
  }

  set(field: RemoteField, value: string): void {
    this[field] = value;
  }

  /** Empties the form and forgets the key. */
  reset(): void {
    this.name = this.url = this.key = "";
    this.insecure = false;
    this.error = this.#tried = undefined;
  }

  /** Checks one remote, or all. Throws if the daemon cannot. */
  async check(name?: string): Promise<void> {
    if (this.checking !== undefined) return;
    this.checking = name === undefined ? "all" : { name };
    try {
      this.list = (await this.from.check(name)).remotes;
    } finally {
      this.checking = undefined;
    }
  }

  isChecking(name: string): boolean {
    return this.checking === "all" || this.checking?.name === name;
  }

  async remove(name: string): Promise<boolean> {
    return this.attempt(async () => void (this.list = (await this.from.remove(name)).remotes));
  }
}
