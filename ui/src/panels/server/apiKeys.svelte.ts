// The list of API keys, the form for a new key, and revocation.
import { Attempt } from "../../api/attempt.svelte";
import { keys, type KeysApi, type KeyScope, type ListedKey } from "../../api/keys";

/** Scopes in the order of the form. */
export const SCOPES: readonly KeyScope[] = ["chat", "models", "metrics", "admin"];
const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;

export class ApiKeys extends Attempt {
  list = $state.raw<readonly ListedKey[] | undefined>(undefined);
  name = $state("");
  scopes = $state.raw<readonly KeyScope[]>(["chat"]);
  /** Text of the created key, until the form is closed. */
  created = $state.raw<string | undefined>(undefined);

  constructor(private readonly from: KeysApi = keys) {
    super();
  }

  async load(): Promise<void> {
    await this.attempt(async () => void (this.list = (await this.from.list()).keys));
  }

  /** Whether the daemon would accept the name. An empty field is no mistake yet. */
  get isNameValid(): boolean {
    return this.name === "" || NAME.test(this.name.trim());
  }

  get ready(): boolean {
    return NAME.test(this.name.trim()) && this.scopes.length > 0 && !this.busy;
  }

  /** Whether the key would have a scope. `admin` includes all others. */
  has(scope: KeyScope): boolean {
    return this.scopes.includes(scope) || this.scopes.includes("admin");
  }

  choose(scope: KeyScope, on: boolean): void {
    this.scopes = SCOPES.filter((one) => (one === scope ? on : this.scopes.includes(one)));
  }

  /** Creates the key; its text is in `created`. */
  async create(): Promise<boolean> {
    if (!this.ready) return false;
    const [name, scopes] = [this.name.trim(), this.scopes.includes("admin") ? (["admin"] as const) : this.scopes];
    const done = await this.attempt(async () => void (this.created = (await this.from.create(name, scopes)).key));
    // The key exists even if the list cannot be read again.
    if (done) this.list = await this.from.list().then((now) => now.keys, () => this.list);
    return done;
  }

  /** Empties the form and forgets the key's text. */
  reset(): void {
    this.name = "";
    this.scopes = ["chat"];
    this.created = undefined;
    this.error = undefined;
  }

  async revoke(name: string): Promise<boolean> {
    return this.attempt(async () => void (this.list = (await this.from.revoke(name)).keys));
  }
}
