// What is asked of the model in hand, and of one beside it, in the view that writes.
import { bytesOf } from "../lib/bytes";
import { Draft, type Manner } from "./draft.svelte";
import type { Machine, Values } from "./kinds";
import { Run } from "./run.svelte";

/** The model beside the one in hand has a worker of its own, and one thread. */
export const BESIDE: Machine = { engine: "wasm", threads: 1 };

export class Writing {
  prompt = $state("");
  stop = $state("");
  values = $state<Values>({});
  second = $state.raw<{ run: Run; draft: Draft } | null>(null);
  readonly draft: Draft;
  private readonly run: Run;
  private choices = 0; // of a model beside it, so far

  readonly manner: Manner = $derived.by(() => ({
    settings: Object.fromEntries(Object.entries(this.values).filter((entry): entry is [string, number | string] => (entry[1] ?? "") !== "")),
    stop: this.stop,
  }));

  constructor(run: Run) {
    this.run = run;
    this.draft = new Draft(run);
  }

  get underWay(): boolean {
    return this.draft.writing || (this.second?.draft.writing ?? false);
  }

  write(machine: Machine): void {
    const bytes = bytesOf(this.prompt || "\n");
    this.draft.write(bytes, this.manner, machine);
    this.second?.draft.write(bytes, this.manner, BESIDE);
  }

  goOn(machine: Machine): void {
    this.draft.goOn(this.draft.made, this.manner, machine);
    this.second?.draft.goOn(this.second.draft.made, this.manner, BESIDE);
  }

  hush(): void {
    this.draft.stop();
    this.second?.draft.stop();
  }

  /** Beside the adapters in hand: what they stand on, or the plain model that the two make. */
  compareWith(which: "base" | "merged"): void {
    this.compare(undefined);
    const { choices } = this;
    this.run.part(which, ({ bytes, name }) => {
      if (choices === this.choices) this.compare({ name, arrayBuffer: async () => bytes.slice().buffer });
    });
  }

  /** Beside the model in hand; nothing: none. */
  compare(file: Parameters<Run["load"]>[0] | undefined): void {
    this.choices += 1;
    this.second?.run.disconnect();
    this.second = null;
    if (!file) return;
    const other = new Run();
    this.second = { run: other, draft: new Draft(other) };
    other.connect();
    void other.load(file);
  }
}
