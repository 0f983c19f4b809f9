// What a run tells of itself, step by step, as columns that the chart takes as they are.

const SMOOTHING = 1 / 100; // of the run's length
const LEAST_STEPS = 10;

/** Exponential moving average over about `steps` values, without the bias towards a start at zero. */
class Average {
  private readonly keep: number;
  private total = 0;
  private weight = 0;

  constructor(steps: number) {
    this.keep = 1 - 1 / steps;
  }

  copy(): Average {
    return Object.assign(new Average(1), this);
  }

  add(value: number): number {
    this.total = this.keep * this.total + (1 - this.keep) * value;
    this.weight = this.keep * this.weight + (1 - this.keep);
    return this.total / this.weight;
  }
}

/** The loss of a run as the page states it: smoothed over a hundredth of its length. */
export class Smoothed {
  /** As of the last step; null: there was none. */
  value: number | null = null;
  private lowest = Infinity;
  private once: Average;
  private twice: Average;

  constructor(length: number) {
    const window = Math.max(LEAST_STEPS, length * SMOOTHING);
    this.once = new Average(window);
    this.twice = new Average(window);
  }

  copy(): Smoothed {
    const copied = Object.assign(new Smoothed(0), this);
    [copied.once, copied.twice] = [this.once.copy(), this.twice.copy()];
    return copied;
  }

  add(loss: number): number {
    // An average lags behind a falling loss, and the average's average twice as far: the difference takes it back,
    // and too far where a fall ends.
    const average = this.once.add(loss);
    this.lowest = Math.min(this.lowest, loss);
    this.value = Math.max(this.lowest, 2 * average - this.twice.add(average));
    return this.value;
  }
}

export class Curve {
  readonly steps: number[] = [];
  readonly train: number[] = [];
  readonly smooth: number[] = [];
  readonly val: (number | null)[] = []; // one per step; null where nothing was measured
  readonly right: (number | null)[] = []; // the share of unseen questions answered right, where any were asked
  readonly low: (number | null)[] = []; // where typical runs are by then, beside a validation loss
  readonly high: (number | null)[] = [];
  readonly norm: (number | null)[] = []; // of the gradient
  readonly rate: (number | null)[] = [];
  readonly speed: (number | null)[] = []; // tokens per second
  readonly seconds: number[] = []; // of training, by then
  private readonly length: number;
  private readonly average: Smoothed;

  /** `past` is what a loaded model remembers of its loss: [step, loss], not every step. */
  constructor(length: number, past: [number, number][] = []) {
    this.length = length;
    this.average = new Smoothed(length);
    for (const [step, loss] of past) this.addStep(step, loss);
  }

  addStep(
    step: number,
    loss: number,
    norm: number | null = null,
    rate: number | null = null,
    speed: number | null = null,
    seconds = 0, // that it took
  ): void {
    this.steps.push(step);
    this.train.push(loss);
    this.smooth.push(this.average.add(loss));
    this.val.push(null);
    this.right.push(null);
    this.low.push(null);
    this.high.push(null);
    this.norm.push(norm);
    this.rate.push(rate);
    this.speed.push(speed);
    this.seconds.push((this.seconds.at(-1) ?? 0) + seconds);
  }

  /** The curve as it was at that step, for a run that goes back to it. */
  until(step: number): Curve {
    const earlier = new Curve(this.length);
    for (let i = 0; i < this.steps.length && this.steps[i]! <= step; i++) {
      earlier.addStep(
        this.steps[i]!,
        this.train[i]!,
        this.norm[i]!,
        this.rate[i]!,
        this.speed[i]!,
        this.seconds[i]! - (this.seconds[i - 1] ?? 0),
      );
      const [val, low, high] = [this.val[i]!, this.low[i]!, this.high[i]!];
      if (this.right[i] !== null) earlier.addExam(this.right[i]!);
      if (val !== null) earlier.addValidation(val, low === null || high === null ? undefined : [low, high]);
    }
    return earlier;
  }

  /** The validation loss at the step that was added last, and where typical runs are by then. */
  addValidation(loss: number, band?: [low: number, high: number]): void {
    if (!this.val.length) return;
    const last = this.val.length - 1;
    this.val[last] = loss;
    if (band) [this.low[last], this.high[last]] = band;
  }

  /** The share of unseen questions that were answered right at the step that was added last. */
  addExam(share: number): void {
    if (this.right.length) this.right[this.right.length - 1] = share;
  }

  get examined(): boolean {
    return this.right.some((share) => share !== null);
  }

  get smoothed(): number | null {
    return this.smooth.at(-1) ?? null;
  }

  get lastValidation(): number | null {
    return this.val.findLast((loss) => loss !== null) ?? null;
  }

  get bestValidation(): number | null {
    const measured = this.val.filter((loss) => loss !== null);
    return measured.length ? Math.min(...measured) : null;
  }
}
