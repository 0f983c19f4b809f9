// A kernel whose heart the reader writes: what was written, what came of checking it, and the run in which it trains.
import { site } from "../lib/site";
import { draft, keepDraft } from "./drafts";
import { Job } from "./job.svelte";
import { noteSolved } from "./mutants";
import type { Comparison, KernelEvent, KernelTimes } from "./protocol";
import { Race } from "./race.svelte";
import { openRoom } from "./rooms";
import type { WriteLab } from "./sources";
import { troubleInKernel } from "./wgsl";

const STEPS = 300;
const FEW_STEPS = 20;
const SMALL = { layers: 1, ctx: 8, batch: 2 };

export class Write {
  readonly lab: WriteLab;
  readonly job = new Job<"check" | "train">();
  readonly race = new Race();
  source = $state("");
  shown = $state(0);
  rows = $state.raw<Comparison[]>([]);
  passed = $state(false);
  times = $state.raw<KernelTimes | null>(null);
  stage = $state(""); // what takes long without being a loop

  constructor(lab: WriteLab) {
    this.lab = lab;
    this.source = draft(this.name) ?? lab.starter;
  }

  readonly wrong = $derived(this.rows.find(({ right }) => !right) ?? null);

  /** As this browser keeps it. */
  get name(): string {
    return `write-${this.lab.name}`;
  }

  /** The reader's lines, the last of which is ended, too. */
  get lines(): string {
    return this.source.endsWith("\n") || this.source === "" ? this.source : `${this.source}\n`;
  }

  type(text: string): void {
    [this.source, this.job.trouble, this.passed] = [text, null, false];
    keepDraft(this.name, text);
  }

  show(text: string): void {
    this.type(text);
    this.shown++;
  }

  private run(task: "check" | "train", work: (ended: AbortSignal) => Promise<void>): Promise<void> {
    return this.job.run(task, (text) => troubleInKernel(text, this.lab, this.source), work);
  }

  check(): Promise<void> {
    [this.rows, this.passed, this.times, this.stage] = [[], false, null, ""];
    return this.run("check", async (ended) => {
      const { calls } = await openRoom({}, "", ended);
      const heard = (event: KernelEvent): void => {
        this.job.heard();
        if (event.event === "compared") [this.rows, this.stage] = [[...this.rows, event.row], ""];
        else if (event.event === "timing") this.stage = "Right. Timing it beside ours …";
        else if (!this.rows.length) this.stage = event.made < event.of ? `Compiling kernels: ${event.made} of ${event.of} …` : "";
      };
      const { name: lab, before, after } = this.lab;
      this.times = await calls.kernel({ lab, before, source: this.lines, after }, { heard });
      this.passed = this.rows.length > 0 && this.wrong === null;
      if (this.passed) noteSolved(this.name);
    });
  }

  /** On WebGPU, beside ours; a model small enough for where that is `software`. */
  train(software: boolean): Promise<void> {
    this.race.begin(software ? FEW_STEPS : STEPS);
    return this.run("train", async (ended) => {
      const edit = openRoom({ [`kernels/${this.lab.file}`]: this.lab.before + this.lines + this.lab.after }, "", ended);
      const asked = {
        preset: "tiny",
        recipe: "classic",
        bytes: site.corpus.bytes,
        changes: { ...this.lab.changes, ...(software ? SMALL : {}) },
      };
      await this.race.run({ edit, original: openRoom({}, "", ended) }, asked, "webgpu", () => this.job.heard());
    });
  }
}
