// What a run has told so far: its numbers, its curve, its samples.
import { Curve } from "../lib/curve";
import type { Film } from "../lib/film";
import type { BudgetOption, CoreEvent, RunConfig } from "../worker/protocol";
import type { Mark, Sample } from "./kinds";

const SHOW_EVERY = 250; // ms: fast enough to be read; drawing takes from the threads and the GPU that train

type Exam = Extract<CoreEvent, { event: "exam" }>;

export class Readings {
  advice = $state.raw<string[]>([]);
  samples = $state.raw<Sample[]>([]); // in order
  marks = $state.raw<Mark[]>([]);
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
  /** The last one, of a model that learns a task. */
  exam = $state.raw<Exam | null>(null);
  tokensPerSecond = $state(0);
  secondsLeft = $state(0);
  /** Of training, as far as this browser saw it. */
  seconds = $state(0);
  /** The same object for a whole run; `shown` changes when it has grown. */
  curve = $state.raw(new Curve(1));
  shown = $state(0);

  private pending: ReturnType<typeof setTimeout> | undefined;
  private latest: Extract<CoreEvent, { event: "steps" }> | null = null;
  protected tokensPerStep = 0;

  /** Takes note of an event; it is shown soon. */
  protected note(event: CoreEvent): void {
    const wait = this.latest ? SHOW_EVERY : 0; // the first step is seen at once
    if (event.event === "steps") {
      for (const [step, loss, norm, rate] of event.rows)
        this.curve.addStep(step, loss, norm, rate, event.tokens_per_s, this.perStep(event));
      this.latest = event;
    } else if (event.event === "eval") {
      this.curve.addValidation(event.val_loss, event.band);
      this.val = event.val_loss;
      if (event.best) this.best = event.val_loss;
    } else if (event.event === "exam") {
      this.curve.addExam(event.accuracy);
      this.exam = event;
    } else if (event.event === "base") {
      this.baseVal = event.val_loss;
    } else if (event.event === "sample") {
      this.addSample(event.step, event.text);
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

  private perStep({ tokens_per_s: rate }: { tokens_per_s: number }): number {
    return rate > 0 ? this.tokensPerStep / rate : 0;
  }

  /** What it wrote on its way and the curve of its loss; null before there is anything to see. */
  get film(): Omit<Film, "title" | "parameters" | "text"> | null {
    void this.shown;
    const { steps, smooth, seconds } = this.curve;
    if (this.samples.length < 2 || !steps.length) return null;
    const every = Math.max(1, Math.floor(steps.length / 200));
    const curve = steps.flatMap((step, i): Film["curve"] =>
      i % every === 0 || i === steps.length - 1 ? [[step, seconds[i]!, smooth[i]!]] : [],
    );
    return { frames: this.samples, curve };
  }

  protected show(): void {
    this.halt();
    if (this.latest) {
      this.step = this.latest.rows.at(-1)![0];
      this.tokensPerSecond = this.latest.tokens_per_s;
      this.secondsLeft = this.latest.eta_s;
      this.loss = this.curve.smoothed;
    }
    this.seconds = this.curve.seconds.at(-1) ?? 0;
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
    this.samples = this.samples.filter((sample) => sample.step <= step);
    this.shown += 1;
  }

  /** Another run: nothing of the one before is shown. */
  protected reset(config: RunConfig, past: [number, number][] = []): void {
    const steps = Number(config.train["steps"]);
    this.curve = new Curve(steps, past);
    this.learnsFrom(config);
    this.steps = steps;
    this.step = 0;
    this.latest = null;
    this.loss = this.val = this.best = this.baseVal = null;
    this.exam = null;
    this.tokensPerSecond = this.secondsLeft = 0;
    this.seconds = 0;
    this.samples = [];
    this.marks = [];
    this.shown += 1;
  }

  protected learnsFrom({ model, train }: RunConfig): void {
    this.tokensPerStep = Number(train["batch"]) * Number(train["grad_accum"] ?? 1) * Number(model["ctx"]);
  }

  protected addSample(step: number, text: string): void {
    const sample = { step, seconds: this.curve.seconds.at(-1) ?? 0, text };
    this.samples = [...this.samples.filter((earlier) => earlier.step < step), sample];
  }
}
