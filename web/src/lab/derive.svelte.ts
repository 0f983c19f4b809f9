// An op that the reader derives: what was written, what came of checking it, and the run in which it trains.
import { corpus } from "../lib/corpus";
import { site } from "../lib/site";
import { draft, keepDraft } from "./drafts";
import { Job } from "./job.svelte";
import { noteSolved } from "./mutants";
import type { Comparison, TimedLoss } from "./protocol";
import { openRoom } from "./rooms";
import type { DeriveLab } from "./sources";
import { ANSWER, troubleOf } from "./trouble";

const TEXT = 20_000; // bytes
export const STEPS = 40;

export class Derive {
  readonly lab: DeriveLab;
  source = $state("");
  shown = $state(0);
  readonly job = new Job<"check" | "train">();
  rows = $state.raw<Comparison[]>([]);
  passed = $state(false);
  curves = $state.raw<{ ours: TimedLoss[]; mine: TimedLoss[]; model: string } | null>(null);

  constructor(lab: DeriveLab) {
    this.lab = lab;
    this.source = draft(lab.name) ?? lab.starter;
  }

  readonly wrong = $derived(this.rows.find(({ right }) => !right) ?? null);

  type(text: string): void {
    [this.source, this.job.trouble, this.passed] = [text, null, false];
    keepDraft(this.lab.name, text);
  }

  show(text: string): void {
    this.type(text);
    this.shown++;
  }

  private run(task: "check" | "train", work: (ended: AbortSignal) => Promise<void>): Promise<void> {
    return this.job.run(task, (text) => troubleOf(text, [ANSWER]), work);
  }

  check(): Promise<void> {
    [this.rows, this.passed] = [[], false];
    const { name } = this.lab;
    return this.run("check", async (ended) => {
      const { calls } = await openRoom({}, "", ended);
      const heard = (row: Comparison): void => {
        this.job.heard();
        this.rows = [...this.rows, row];
      };
      await calls.derive({ lab: name, source: this.source }, { heard });
      this.passed = this.wrong === null;
      if (this.passed) noteSolved(`derive-${name}`);
    });
  }

  train(): Promise<void> {
    this.curves = { ours: [], mine: [], model: "" };
    return this.run("train", async (ended) => {
      const text = (await corpus(site.corpus)).slice(0, TEXT);
      const one = async (which: "ours" | "mine"): Promise<void> => {
        const { calls } = await openRoom({}, "", ended);
        const heard = (row: TimedLoss): void => {
          this.job.heard();
          this.curves = { ...this.curves!, [which]: [...this.curves![which], row] };
        };
        const source = which === "mine" ? this.source : "";
        const model = await calls.deriveTrain({ lab: this.lab.name, source, steps: STEPS, text }, { heard });
        this.curves = { ...this.curves!, model };
      };
      await Promise.all([one("ours"), one("mine")]);
    });
  }
}
