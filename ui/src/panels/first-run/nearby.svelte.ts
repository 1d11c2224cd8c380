// Another computer on the network with models: found, or entered by the user, and joined by a code that it shows. It is used as
// the first source of downloads, which are verified as usual.
import { Attempt } from "../../api/attempt.svelte";
import { mirror, type FoundMachine, type MirrorApi, type MirrorResponse } from "../../api/mirror";

export class Nearby extends Attempt {
  address = $state("");
  code = $state("");
  isEditing = $state(false);
  #now = $state.raw<MirrorResponse | undefined>(undefined);

  constructor(private readonly api: Pick<MirrorApi, "now" | "join"> = mirror) {
    super();
  }

  async look(): Promise<void> {
    this.#now = await this.api.now().catch(() => undefined);
  }

  /** Whether the status is known; otherwise nothing is offered. */
  get isAvailable(): boolean {
    return this.#now !== undefined;
  }

  /** Names of the joined computers. */
  get joined(): string[] {
    return (this.#now?.joined ?? []).map((one) => one.label);
  }

  /** A computer that was found and has not joined. */
  get found(): FoundMachine | undefined {
    return this.#now?.nearby.find((one) => !one.joined && !one.dropped);
  }

  /** Whether there is a computer to show: found, joined, or being entered. */
  get isShown(): boolean {
    return this.isAvailable && (this.isEditing || this.found !== undefined || this.joined.length > 0);
  }

  /** Ends the entry. */
  cancel(): void {
    this.isEditing = false;
    this.error = undefined;
  }

  edit(): void {
    if (this.address === "" && this.found) this.address = this.found.address;
    this.isEditing = true;
  }

  get ready(): boolean {
    return this.address.trim() !== "" && this.code.trim() !== "";
  }

  /** Joins the computer; returns whether it was accepted. */
  async join(): Promise<boolean> {
    const address = this.address.trim();
    return this.ready && this.attempt(async () => {
      this.#now = await this.api.join(/^\w+:\/\//.test(address) ? address : `http://${address}`, this.code.trim());
      this.isEditing = false;
    });
  }
}
