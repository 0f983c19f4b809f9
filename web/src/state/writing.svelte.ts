// What is asked of the current model, and of one that is compared with it.
import { bytesOf } from "../lib/bytes";
import { fileOf, type SiteModel } from "../lib/models";
import { changesInWords } from "../lib/parts";
import { voiceOf, type Voice } from "../lib/voices";
import type { Scale } from "../worker/protocol";
import { Draft, type Manner } from "./draft.svelte";
import type { Machine, Values } from "./kinds";
import { Run } from "./run.svelte";

/** The model beside the current one has a worker of its own, and one thread. */
export const BESIDE: Machine = { engine: "wasm", threads: 1 };

/** What a second model may be chosen as, beside the names of the site's. */
export const [BASE, MERGED, CHANGED, FROM_FILE] = ["=base", "=merged", "=changed", "=file"];
const OF_THIS_MODEL = [BASE, MERGED, CHANGED]; // made of the current one: they go with it

const SEEDS = 10_000; // as few digits as one can say to another

const newSeed = (): number => Math.floor(Math.random() * SEEDS);

export class Writing {
  prompt = $state("");
  stop = $state("");
  values = $state<Values>({ seed: newSeed() });
  /** Letters are coloured by how unexpected they were. */
  coloured = $state(false);
  /** The seed stays; else each text has a new one. */
  locked = $state(false);
  second = $state.raw<{ run: Run; draft: Draft } | null>(null);
  /** Parts that count for more, less or nothing in the second model, where that is CHANGED. */
  changed = $state.raw<Scale[]>([]);
  /** What the second model was chosen as: its name, FROM_FILE, the current one CHANGED, or of an adapter its base or the two merged;
   * none: "". */
  beside = $state("");
  readonly draft: Draft;
  private readonly run: Run;
  private choices = 0; // of a model beside it, so far

  readonly manner: Manner = $derived.by(() => ({
    settings: Object.fromEntries(
      Object.entries(this.values).filter((entry): entry is [string, number | string] => (entry[1] ?? "") !== ""),
    ),
    stop: this.stop,
  }));

  private voice: Voice | null = null; // whose prompt is there

  constructor(run: Run) {
    this.run = run;
    this.draft = new Draft(run);
    run.whenReplaced(() => {
      if (this.voice && this.prompt === this.voice.prompt) this.introduce(null); // of the model before
      if (OF_THIS_MODEL.includes(this.beside)) this.compare(undefined); // of the model before
    });
  }

  get underWay(): boolean {
    return this.draft.writing || (this.second?.draft.writing ?? false);
  }

  write(machine: Machine): void {
    if (!this.locked) this.values.seed = newSeed();
    this.begin(machine);
  }

  private begin(machine: Machine): void {
    const bytes = bytesOf(this.prompt || "\n");
    this.draft.write(bytes, this.manner, machine);
    this.second?.draft.write(bytes, this.manner, BESIDE);
  }

  /** A bundled model introduces itself, with the text that its card quotes. */
  open(model: SiteModel, machine: Machine): void {
    this.compare(undefined);
    this.introduce(voiceOf(model.name));
    void this.run.load(fileOf(model), () => {
      this.introduce(voiceOf(model.name));
      this.begin(machine);
    });
  }

  /** One question, and the answer that the model finds most likely. */
  ask(question: string, machine: Machine): void {
    this.prompt = question;
    this.stop = "\n";
    this.values = { ...this.values, temperature: 0 };
    this.begin(machine);
  }

  /** Sets what a bundled model's card quotes; null: nothing that another model was asked. */
  private introduce(voice: Voice | null): void {
    this.voice = voice;
    this.prompt = voice?.prompt ?? "";
    this.stop = voice?.greedy ? "\n" : "";
    this.values = { seed: voice?.seed ?? newSeed(), ...(voice?.greedy ? { temperature: 0 } : {}) };
    this.locked = false;
  }

  goOn(machine: Machine): void {
    void this.draft.goOn(this.draft.made, this.manner, machine);
    void this.second?.draft.goOn(this.second.draft.made, this.manner, BESIDE);
  }

  hush(): void {
    this.draft.stop();
    this.second?.draft.stop();
  }

  /** Beside the adapters in hand: what they stand on, or the plain model that the two make. */
  async compareWith(which: "base" | "merged"): Promise<void> {
    const beside = which === "base" ? BASE : MERGED;
    this.compare(undefined);
    this.beside = beside;
    const { choices } = this;
    const file = await this.run.files.part(which);
    if (file && choices === this.choices) this.compare({ name: file.name, arrayBuffer: async () => file.bytes.slice().buffer }, beside);
  }

  /** The current model continues a prompt, and beside it the same with parts of it switched off or scaled. */
  async writeChanged(prompt: string, scales: Scale[], machine: Machine): Promise<void> {
    this.compare(undefined);
    this.beside = CHANGED;
    this.changed = scales;
    this.prompt = prompt;
    const { choices } = this;
    const file = await this.run.files.scaled(scales);
    if (choices !== this.choices) return;
    if (!file) return this.compare(undefined);
    const name = `${this.run.model?.title.replace(/\.(tinygpt|safetensors)$/, "")} ${changesInWords(scales)}`;
    this.compare({ name, arrayBuffer: async () => file.bytes.slice().buffer }, CHANGED, () => this.write(machine));
  }

  /** Beside the current model; nothing: none. `then`: once it is there. */
  compare(file: Parameters<Run["load"]>[0] | undefined, beside = FROM_FILE, then?: () => void): void {
    this.choices += 1;
    this.second?.draft.stop();
    this.second?.run.disconnect();
    this.second = null;
    this.beside = file ? beside : "";
    if (!file) return;
    const other = new Run();
    this.second = { run: other, draft: new Draft(other) };
    other.connect();
    void other.load(file, then);
  }
}
