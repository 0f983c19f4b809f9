// What a run has told so far: its numbers, its curve, its samples.
import { Curve } from "../lib/curve";
import { count } from "../lib/format";
import type { BudgetOption, CoreEvent } from "../worker/protocol";
import type { Sample } from "./kinds";

const SHOW_EVERY = 250; // ms: fast enough to be read; drawing takes from the threads and the GPU that train

export class Readings {
  advice = $state.raw<string[]>([]);
  samples = $state.raw<Sample[]>([]);
  /** Of a run that is to end in time: what could be made of it, size by size, as measured. */
  options = $state.raw<BudgetOption[]>([]);
  keptAt = $state<number | null>(null); // the step that was kept last
  unkept = $state(""); // why a later one could not be

  // As of the last time the numbers were shown.
  step = $state(0);
  steps = $state(0);
  loss = $state<number | null>(null);
  val = $state<number | null>(null);
  best = $state<number | null>(null);
  baseVal = $state<number | null>(null); // of what adapters stand on, on the same text
  tokensPerSecond = $state(0);
  secondsLeft = $state(0);
  /** The same object for a whole run; `shown` changes when it has grown. */
  curve = $state.raw(new Curve(1));
  shown = $state(0);

  private pending: ReturnType<typeof setTimeout> | undefined;
  private latest: Extract<CoreEvent, { event: "steps" }> | null = null;
  private sampleCount = 0;

  /** Takes note of an event; it is shown soon. */
  protected note(event: CoreEvent): void {
    const wait = this.latest ? SHOW_EVERY : 0; // the first step is seen at once
    if (event.event === "steps") {
      for (const [step, loss, norm, rate] of event.rows) this.curve.addStep(step, loss, norm, rate, event.tokens_per_s);
      this.latest = event;
    } else if (event.event === "eval") {
      this.curve.addValidation(event.val_loss, event.band);
      this.val = event.val_loss;
      if (event.best) this.best = event.val_loss;
    } else if (event.event === "base") {
      this.baseVal = event.val_loss;
    } else if (event.event === "sample") {
      this.addSample(`step ${count(event.step)}`, event.text);
    } else if (event.event === "advice") {
      this.advice = [...new Set([...this.advice, event.text])]; // a run that goes on may be told the same again
    } else if (event.event === "checkpoint") {
      this.keptAt = event.step;
      this.unkept = "";
    } else if (event.event === "unkept") {
      this.unkept = event.text;
    } else if (event.event === "option") {
      this.options = [...this.options, event.option];
    } else if (event.event === "retime") {
      this.steps = event.steps;
    }
    this.pending ??= setTimeout(() => this.show(), wait);
  }

  protected show(): void {
    this.halt();
    if (this.latest) {
      this.step = this.latest.rows.at(-1)![0];
      this.tokensPerSecond = this.latest.tokens_per_s;
      this.secondsLeft = this.latest.eta_s;
      this.loss = this.curve.smoothed;
    }
    this.shown += 1;
  }

  /** Nothing more is to be shown by itself. */
  protected halt(): void {
    clearTimeout(this.pending);
    this.pending = undefined;
  }

  /** What an earlier tab was told, up to a step and its loss. */
  protected replay(events: CoreEvent[], step: number, loss: number | null): void {
    for (const event of events) this.note(event);
    this.show();
    this.latest = null;
    this.tokensPerSecond = this.secondsLeft = 0;
    this.step = step;
    this.loss = events.length ? (this.curve.smoothed ?? loss) : loss;
  }

  /** The curve and the numbers as they were then. */
  protected returnTo(step: number): void {
    this.step = step;
    this.latest = null;
    this.curve = this.curve.until(step);
    this.loss = this.curve.smoothed;
    this.val = this.curve.lastValidation;
    this.best = this.curve.bestValidation;
    this.shown += 1;
  }

  protected reset(steps: number, past: [number, number][] = []): void {
    this.curve = new Curve(steps, past);
    this.steps = steps;
    this.step = 0;
    this.latest = null;
    this.loss = this.val = this.best = this.baseVal = null;
    this.tokensPerSecond = this.secondsLeft = 0;
    this.samples = [];
    this.shown += 1;
  }

  protected addSample(title: string, text: string): number {
    this.sampleCount += 1;
    this.samples = [{ id: this.sampleCount, title, text }, ...this.samples];
    return this.sampleCount;
  }
}
