// A computer on the network that has models: found, or named by the person, and joined by a code that it shows. What comes from
// there is checked like anything else, and it is asked first.
import { Attempt } from "../../api/attempt.svelte";
import { mirror, type FoundMachine, type MirrorApi, type MirrorResponse } from "../../api/mirror";

export class Nearby extends Attempt {
  address = $state("");
  code = $state("");
  asking = $state(false);
  #now = $state.raw<MirrorResponse | undefined>(undefined);

  constructor(private readonly api: Pick<MirrorApi, "now" | "join"> = mirror) {
    super();
  }

  async look(): Promise<void> {
    this.#now = await this.api.now().catch(() => undefined);
  }

  /** Whether it is known what is there; without that nothing is offered. */
  get known(): boolean {
    return this.#now !== undefined;
  }

  /** Names of those that are asked first. */
  get joined(): string[] {
    return (this.#now?.joined ?? []).map((one) => one.label);
  }

  /** One that was found and has not been joined. */
  get found(): FoundMachine | undefined {
    return this.#now?.nearby.find((one) => !one.joined && !one.dropped);
  }

  ask(): void {
    if (this.address === "" && this.found) this.address = this.found.address;
    this.asking = true;
  }

  get ready(): boolean {
    return this.address.trim() !== "" && this.code.trim() !== "";
  }

  /** True when it was let in. */
  async join(): Promise<boolean> {
    const address = this.address.trim();
    return this.ready && this.attempt(async () => {
      this.#now = await this.api.join(/^\w+:\/\//.test(address) ? address : `http://${address}`, this.code.trim());
      this.asking = false;
    });
  }
}
