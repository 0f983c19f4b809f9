// A text that a model writes on from a prompt, as far as it is, and what could stand at any place of it.
import { prompted } from "../lib/bytes";
import type { Changes, Likely } from "../worker/protocol";
import type { Machine } from "./kinds";
import type { Run } from "./run.svelte";

export interface Manner {
  settings: Changes;
  stop: string; // none: nothing
}

export class Draft {
  prompt = $state.raw<number[]>([]);
  made = $state.raw<number[]>([]);
  writing = $state(false);
  weighing = $state(false);
  seconds = $state(0); // until the last byte came
  toFirst = $state<number | null>(null); // seconds until the first did
  /** A place in prompt and text: what is likely there is shown. */
  place = $state<number | null>(null);
  likely = $state.raw<Likely[]>([]);

  private readonly run: Run;
  private underWay: AbortController | null = null;
  private asked = 0; // questions so far: an answer to an earlier one is not heard

  constructor(run: Run) {
    this.run = run;
    run.whenReplaced(() => this.clear());
  }

  /** Another model is in hand: none of this is its. */
  private clear(): void {
    this.stop();
    this.asked += 1;
    this.prompt = this.made = [];
    this.likely = [];
    this.place = this.toFirst = null;
    this.seconds = 0;
    this.writing = this.weighing = false;
  }

  get bytes(): number[] {
    return [...this.prompt, ...this.made];
  }

  get perSecond(): number | null {
    return this.made.length > 1 && this.seconds > 0 ? this.made.length / this.seconds : null;
  }

  write(prompt: number[], manner: Manner, machine: Machine): void {
    this.prompt = prompt;
    void this.goOn([], manner, machine);
  }

  /** Continue what is made so far, or as much of it. */
  async goOn(made: number[], { settings, stop }: Manner, machine: Machine): Promise<void> {
    this.made = made;
    this.place = null;
    this.likely = [];
    this.seconds = 0;
    this.toFirst = null;
    this.writing = true;
    const before = made.length;
    const question = { prompt: this.readOf(this.bytes), settings, ...(stop ? { stop } : {}) };
    this.asked += 1;
    const { asked } = this;
    const heard = ({ bytes, seconds }: { bytes: number[]; seconds: number }): void => {
      if (asked !== this.asked || bytes.length === 0) return;
      this.made = [...this.made, ...bytes];
      this.seconds = seconds;
      if (this.made.length > before) this.toFirst ??= seconds;
    };
    const { signal } = (this.underWay = new AbortController());
    await this.run.ask(machine, (calls) => calls.write(question, { heard, signal }));
    if (asked === this.asked) this.writing = false;
  }

  private readOf(bytes: number[]): number[] {
    return prompted(this.run.model?.learnt?.name, bytes);
  }

  stop(): void {
    this.underWay?.abort();
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

  /** Go on from there with another byte. */
  choose(byte: number, manner: Manner, machine: Machine): void {
    const kept = this.bytes.slice(0, this.place ?? 0);
    const prompt = kept.slice(0, this.prompt.length);
    this.prompt = kept.length < this.prompt.length ? [...prompt, byte] : prompt;
    void this.goOn(kept.length < this.prompt.length ? [] : [...kept.slice(this.prompt.length), byte], manner, machine);
  }
}
