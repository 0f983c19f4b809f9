// An op that the reader derives: what was written, what came of checking it, and the run in which it trains.
import { corpus } from "../lib/corpus";
import { site } from "../lib/site";
import { noteSolved } from "./mutants";
import type { Comparison, TimedLoss } from "./protocol";
import { openRoom } from "./rooms";
import type { DeriveLab } from "./sources";
import { type Trouble, troubleOf, ANSWER } from "./trouble";

const KEPT = "tinygpt lab draft "; // and the lab's name
const TEXT = 20_000; // bytes
export const STEPS = 40;

/** What the reader wrote last time. */
function draft(name: string): string | null {
  try {
    return localStorage.getItem(KEPT + name);
  } catch {
    return null;
  }
}

export class Derive {
  readonly lab: DeriveLab;
  source = $state("");
  shown = $state(0);
  task = $state<"check" | "train" | null>(null);
  slow = $state(false);
  trouble = $state.raw<Trouble | null>(null);
  rows = $state.raw<Comparison[]>([]);
  passed = $state(false);
  curves = $state.raw<{ ours: TimedLoss[]; mine: TimedLoss[]; model: string } | null>(null);
  private ending: AbortController | null = null;
  private watch: ReturnType<typeof setTimeout> | undefined;

  constructor(lab: DeriveLab) {
    this.lab = lab;
    this.source = draft(lab.name) ?? lab.starter;
  }

  readonly wrong = $derived(this.rows.find(({ right }) => !right) ?? null);

  type(text: string): void {
    [this.source, this.trouble, this.passed] = [text, null, false];
    try {
      localStorage.setItem(KEPT + this.lab.name, text);
    } catch {
      // A browser that keeps nothing forgets it with the page.
    }
  }

  show(text: string): void {
    this.type(text);
    this.shown++;
  }

  stop(): void {
    this.ending?.abort();
    this.ending = null;
    clearTimeout(this.watch);
    [this.task, this.slow] = [null, false];
  }

  private heard(): void {
    clearTimeout(this.watch);
    this.slow = false;
    this.watch = setTimeout(() => (this.slow = true), 6000);
  }

  private async run(task: "check" | "train", work: (ended: AbortSignal) => Promise<void>): Promise<void> {
    this.stop();
    const ending = (this.ending = new AbortController());
    [this.task, this.trouble] = [task, null];
    this.heard();
    try {
      await work(ending.signal);
    } catch (error) {
      if (!ending.signal.aborted) this.trouble = troubleOf(error instanceof Error ? error.message : String(error), [ANSWER]);
    } finally {
      ending.abort();
      if (this.ending === ending) this.stop();
    }
  }

  check(): Promise<void> {
    [this.rows, this.passed] = [[], false];
    const { name } = this.lab;
    return this.run("check", async (ended) => {
      const { calls } = await openRoom({}, "", ended);
      const heard = (row: Comparison): void => {
        this.heard();
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
          this.heard();
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
