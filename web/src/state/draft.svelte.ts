// A text that a model continues from a prompt, as far as it is, and what else it could have written at any place of it.
import { prompted } from "../lib/bytes";
import { readingPace } from "../lib/pace";
import type { Changes, Likely } from "../worker/protocol";
import type { Machine } from "./kinds";
import type { Run } from "./run.svelte";

export interface Manner {
  settings: Changes;
  stop: string; // none: nothing
}

const FLOWS_EVERY = 30; // ms
const LOOKED_AT = 2000; // bytes, at most

export class Draft {
  prompt = $state.raw<number[]>([]);
  made = $state.raw<number[]>([]);
  writing = $state(false);
  weighing = $state(false);
  seconds = $state(0); // until the last byte came
  written = $state(0); // bytes of the last answer so far, shown or not
  toFirst = $state<number | null>(null); // seconds until the first did
  /** A place in prompt and text: what is likely there is shown. */
  place = $state<number | null>(null);
  likely = $state.raw<Likely[]>([]);
  /** Whose text it is. */
  by = $state("");
  /** How unexpected each byte was to the model, in nats, from the first that is known; null: not asked. */
  surprise = $state.raw<{ first: number; losses: Float32Array } | null>(null);

  private readonly run: Run;
  private waiting: number[] = []; // bytes that came faster than one reads
  private flowing: ReturnType<typeof setInterval> | undefined;
  private flown: () => void = () => undefined; // is called when none are left
  private underWay: AbortController | null = null;
  private asked = 0; // questions so far: an answer to an earlier one is not heard

  constructor(run: Run) {
    this.run = run;
    run.whenReplaced(() => this.clear());
  }

  /** Another model is current: none of this is its. */
  private clear(): void {
    this.stop();
    this.asked += 1;
    this.prompt = this.made = [];
    this.likely = [];
    this.surprise = null;
    this.place = this.toFirst = null;
    this.seconds = 0;
    this.writing = this.weighing = false;
  }

  get bytes(): number[] {
    return [...this.prompt, ...this.made];
  }

  get perSecond(): number | null {
    return this.written > 1 && this.seconds > 0 ? this.written / this.seconds : null;
  }

  write(prompt: number[], manner: Manner, machine: Machine): void {
    this.prompt = prompt;
    void this.goOn([], manner, machine);
  }

  /** Continue what is made so far, or as much of it. */
  async goOn(made: number[], { settings, stop }: Manner, machine: Machine): Promise<void> {
    this.made = made;
    this.by = this.run.model?.title ?? "";
    this.surprise = null;
    this.place = null;
    this.likely = [];
    this.seconds = 0;
    this.toFirst = null;
    this.writing = true;
    this.written = 0;
    const question = { prompt: this.readOf(this.bytes), settings, ...(stop ? { stop } : {}) };
    this.asked += 1;
    const { asked } = this;
    const heard = ({ bytes, seconds }: { bytes: number[]; seconds: number }): void => {
      if (asked !== this.asked || bytes.length === 0) return;
      this.flow(bytes);
      this.seconds = seconds;
      this.written += bytes.length;
      this.toFirst ??= seconds;
    };
    const { signal } = (this.underWay = new AbortController());
    await this.run.ask(machine, (calls) => calls.write(question, { heard, signal }));
    if (asked === this.asked) await this.shown();
    if (asked === this.asked) this.writing = false;
  }

  private readOf(bytes: number[]): number[] {
    return prompted(this.run.model?.learnt?.name, bytes);
  }

  /** Bytes come into the text, no faster than one reads. */
  private flow(bytes: number[]): void {
    const pace = readingPace();
    if (pace === Infinity) return void (this.made = [...this.made, ...bytes]);
    this.waiting.push(...bytes);
    let last = performance.now();
    let due = 0;
    this.flowing ??= setInterval(() => {
      const now = performance.now();
      due += ((now - last) / 1000) * pace;
      last = now;
      const next = this.waiting.splice(0, Math.floor(due));
      due -= next.length;
      if (next.length) this.made = [...this.made, ...next];
      if (!this.waiting.length) this.endFlow();
    }, FLOWS_EVERY);
  }

  private endFlow(): void {
    clearInterval(this.flowing);
    this.flowing = undefined;
    this.waiting = [];
    this.flown();
  }

  /** Once all that came is in the text. */
  private async shown(): Promise<void> {
    if (this.waiting.length) await new Promise<void>((resolve) => (this.flown = resolve));
  }

  stop(): void {
    this.underWay?.abort();
    this.endFlow();
  }

  /** How unexpected each letter of it was to the model. */
  async measure(machine: Machine): Promise<void> {
    const { bytes, asked } = this;
    const text = Uint8Array.from(bytes.slice(-LOOKED_AT));
    const seen = await this.run.ask(machine, (calls) => calls.look({ text, scales: [], tensor: "" }));
    if (seen && asked === this.asked) this.surprise = { first: bytes.length - seen.losses.length, losses: seen.losses };
  }

  /** How likely each byte is at that place, after all that is before it. */
  async look(place: number, manner: Manner, machine: Machine): Promise<void> {
    if (place !== this.place) this.likely = [];
    this.place = place;
    if (this.weighing) return; // once that is answered
    this.weighing = true;
    const { asked } = this;
    const question = { prompt: this.readOf(this.bytes.slice(0, place)), settings: manner.settings };
    const likely = await this.run.ask(machine, (calls) => calls.weigh(question));
    this.weighing = false;
    if (asked !== this.asked || !likely || this.place === null) return;
    if (this.place === place) this.likely = likely;
    else await this.look(this.place, manner, machine);
  }

  /** What the model had read and chosen when it wrote the letter at the place that is looked at. */
  get toExplain(): number[] {
    return this.readOf(this.bytes.slice(0, (this.place ?? 0) + 1));
  }

  /** The place is not looked at any more. */
  leave(): void {
    this.place = null;
    this.likely = [];
  }

  /** Continue from there with another byte. */
  choose(byte: number, manner: Manner, machine: Machine): void {
    const kept = this.bytes.slice(0, this.place ?? 0);
    const prompt = kept.slice(0, this.prompt.length);
    this.prompt = kept.length < this.prompt.length ? [...prompt, byte] : prompt;
    void this.goOn(kept.length < this.prompt.length ? [] : [...kept.slice(this.prompt.length), byte], manner, machine);
  }
}
