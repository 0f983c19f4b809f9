// What the user has chosen for the next run, wherever on the page: size, text, engine, settings.
import { corpus } from "../lib/corpus";
import type { OwnText } from "../lib/owntext";
import { isTask } from "../lib/bytes";
import { knob, presetNamed, site, type SiteCorpus, siteTexts } from "../lib/site";
import { defaultEngine, type Changes, type EngineName, type Knob, type RunConfig } from "../worker/protocol";
import type { Hub } from "./hub.svelte";
import type { Learnt, Machine, Order, Values } from "./kinds";
import type { Run } from "./run.svelte";

/** Where the text comes from: a corpus of the site's, the user's bytes, Hugging Face, or what a kept run has learnt from. */
export type Source = "corpus" | "own" | "hub" | "kept";

const MANY_CORES = 8;

/** That a run may be given. */
export const MINUTES = [1, 3, 10, 30];

const FOLLOWING = "matrix_lr"; // is scaled with the learning rate, unless it is set itself

/** The row of the size table that stands for the current model. */
export const IN_HAND = "your model";

export class Setup {
  preset = $state(site.defaultPreset); // of a new model
  chosen = $state(site.defaultPreset); // the preset, or the current model
  recipe = $state(site.defaultRecipe);
  /** In which a new run is to end, of the size that learns most in that time; null: the size and the steps are chosen. */
  minutes = $state<number | null>(1);
  source = $state<Source>("corpus");
  #corpus = $state.raw(site.corpus);
  #chosenCorpus = false;
  pasted = $state("");
  own = $state.raw<OwnText | null>(null); // instead of what is pasted
  values = $state<Values>({});
  steps = $state<number | null>(null);
  threads = $state<number | null>(null);
  chosenEngine = $state<EngineName | null>(null);
  teach = $state(false); // the current model is to stay as it is, and an adapter beside it to learn
  adapter = $state<Values>({}); // its settings
  targets = $state.raw(String(knob("lora", "targets").default).split(","));

  private readonly run: Run;

  readonly engine: EngineName = $derived.by(() => this.chosenEngine ?? defaultEngine(this.run.capabilities));
  readonly goingOn = $derived.by(() => this.chosen === IN_HAND && this.run.model !== null);
  readonly usually = $derived.by(() => presetNamed(this.preset, this.recipe));
  readonly teaching = $derived.by(() => this.goingOn && this.teach && this.run.model?.base == null);
  /** What the run would have where nothing is changed. */
  readonly usual: RunConfig = $derived.by(() => {
    if (this.teaching) return this.run.facts.teaching?.usual ?? this.run.model!.config;
    return this.goingOn ? this.run.model!.config : this.usually;
  });
  readonly usualSteps = $derived.by(() => (this.goingOn && !this.teaching ? this.run.nextGoal : Number(this.usual.train["steps"])));
  readonly kept = $derived.by(() => this.run.model?.text ?? null);
  /** What of the text is here already; null: what it is like is known, or not to be had. */
  readonly blob = $derived.by(() => {
    if (this.source === "own") return this.own?.blob ?? new Blob([this.pasted]);
    return this.source === "hub" ? new Blob(this.run.hub.fetched ? [this.run.hub.fetched.text] : []) : null;
  });
  readonly textBytes = $derived.by(() => {
    if (this.source === "corpus") return this.corpus.bytes;
    return this.source === "kept" ? (this.kept?.bytes ?? 0) : (this.blob?.size ?? 0);
  });

  constructor(run: Run) {
    this.run = run;
  }

  get corpus(): SiteCorpus {
    return this.#corpus;
  }

  set corpus(chosen: SiteCorpus) {
    this.#corpus = chosen;
    this.#chosenCorpus = true;
  }

  /** Its text asks questions. How long such a run must be is not known, so no time can be given to it. */
  get asks(): boolean {
    return this.source === "corpus" && isTask(this.corpus.name);
  }

  /** The larger text becomes the default as soon as it is here. */
  async fetchLarger(): Promise<void> {
    const found = await corpus(site.larger).catch(() => null);
    if (found && !this.#chosenCorpus) this.#corpus = site.larger;
  }

  /** How much of the text is held out, where its source says so. */
  get textChanges(): Changes {
    return this.source === "corpus" && !this.goingOn ? { val_fraction: this.corpus.valFraction } : {};
  }

  get hub(): Hub {
    return this.run.hub;
  }

  /** Of many cores one is left to the page: what waits for it on all of them waits for the slowest. */
  get usualThreads(): number {
    const cores = this.run.capabilities?.threads ?? 1;
    return cores >= MANY_CORES ? cores - 1 : cores;
  }

  get machine(): Machine {
    return { engine: this.engine, threads: this.threads ?? this.usualThreads };
  }

  choose(row: string): void {
    this.chosen = row;
    if (row !== IN_HAND) this.preset = row;
    this.steps = null;
  }

  /** A new model of that size, for as many steps as are chosen. */
  chooseSize(preset: string): void {
    this.minutes = null;
    this.choose(preset);
  }

  /** A new model, whatever there is. */
  beginNew(): void {
    this.choose(this.preset);
  }

  /** A new run on the chosen text: within some seconds, or of the chosen size. */
  order(seconds: number | null): Order {
    const { preset, recipe, machine, textName } = this;
    const means = { ...machine, text: () => this.text(), textName, preset, recipe };
    const { steps, ...stated } = this.changes();
    if (seconds === null || this.asks) return { ...means, changes: { ...stated, steps: steps! } };
    const { hardness } = this.corpus;
    const known = this.source === "corpus" && hardness !== undefined ? { hardness } : {};
    return { ...means, changes: stated, seconds, ...known };
  }

  /** The current model is to be taught another text than it has learnt from. */
  beginTeaching(): void {
    this.choose(IN_HAND);
    this.teach = true;
    if (this.source !== "hub") this.source = "own";
  }

  /** A model has arrived: one of the library brings its text along. */
  receive(): void {
    this.choose(IN_HAND);
    if (this.run.model?.base) this.teach = false;
    if (this.teaching) return;
    if (this.kept) this.source = "kept";
    else if (this.source === "kept") this.source = "corpus";
  }

  /** The text, or the sha256 of the one that is kept. */
  async text(): Promise<Uint8Array<ArrayBuffer> | string> {
    if (this.source === "corpus") return corpus(this.corpus);
    if (this.source === "kept" && this.kept) return this.kept.sha256;
    if (this.source === "hub" && !this.run.hub.fetched) throw new Error("There is no text of that dataset yet: press Fetch first.");
    if (this.source === "own" && !this.blob!.size) throw new Error("Paste some text first, or choose a file.");
    return new Uint8Array(await this.blob!.arrayBuffer());
  }

  /** The text that the current model learnt from, or the sha256 of one that may be kept, and what it is called. */
  async learnt(): Promise<{ text: Uint8Array<ArrayBuffer> | string; name: string }> {
    const learnt = this.run.model?.learnt;
    if (!learnt) throw new Error("This model's file does not say which text it learnt from.");
    const ours = siteTexts.find(({ sha256 }) => sha256 === learnt.text);
    return ours ? { text: await corpus(ours), name: ours.title } : learnt;
  }

  get learntFrom(): Learnt | null {
    return this.run.model?.learnt ?? null;
  }

  get textName(): string {
    if (this.source === "corpus") return this.asks ? this.corpus.name : this.corpus.title;
    if (this.source === "kept") return this.kept?.name ?? "";
    return (this.source === "hub" ? this.run.hub.fetched?.name : this.own?.name) ?? "your own text";
  }

  /** Whether the current model has this setting for life; an adapter of it is trained in its own way. */
  fixes({ section, fixed }: Knob): boolean {
    return this.goingOn && fixed && !(this.teaching && section === "train");
  }

  /** The rate of matrices, which Muon has beside the other: it is scaled with the learning rate; null: it is as usual. */
  followed(name: string): string | null {
    const { train } = this.usual;
    const { lr, optimizer } = this.values;
    if (name !== FOLLOWING || (optimizer ?? train["optimizer"]) !== "muon" || typeof lr !== "number" || !(lr > 0)) return null;
    return String(Number(((Number(train[FOLLOWING]) * lr) / Number(train["lr"])).toPrecision(6)));
  }

  /** Settings that differ from what the preset, or the current model, would have. */
  changes(): Changes {
    const fixed = site.knobs.filter((knob) => knob.section !== "sample" && this.fixes(knob)).map(({ name }) => name);
    const rate = this.followed(FOLLOWING);
    const stated = Object.fromEntries(
      filled({ [FOLLOWING]: rate === null ? null : Number(rate), ...this.values }).filter(([name]) => !fixed.includes(name)),
    );
    return { ...this.textChanges, ...stated, steps: this.steps ?? this.usualSteps };
  }

  /** The adapter's settings. */
  lora(): Changes {
    return { ...Object.fromEntries(filled(this.adapter)), targets: this.targets.join(",") };
  }
}

function filled(values: Values): [string, number | string][] {
  return Object.entries(values).filter((entry): entry is [string, number | string] => (entry[1] ?? "") !== "");
}
