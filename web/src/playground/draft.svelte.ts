// A text that a model writes on from a prompt, as far as it is, and what could stand at any place of it.
import type { Changes } from "../engine/protocol";
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
  likely = $state.raw<[byte: number, probability: number][]>([]);

  private readonly run: Run;
  private withdraw: () => void = () => undefined;

  constructor(run: Run) {
    this.run = run;
  }

  get bytes(): number[] {
    return [...this.prompt, ...this.made];
  }

  get perSecond(): number | null {
    return this.made.length > 1 && this.seconds > 0 ? this.made.length / this.seconds : null;
  }

  write(prompt: number[], manner: Manner, machine: Machine): void {
    this.prompt = prompt;
    this.goOn([], manner, machine);
  }

  /** Write on behind what is made so far, or behind as much of it. */
  goOn(made: number[], { settings, stop }: Manner, machine: Machine): void {
    this.made = made;
    this.place = null;
    this.likely = [];
    this.seconds = 0;
    this.toFirst = null;
    this.writing = true;
    const before = made.length;
    const question = { type: "write" as const, prompt: this.bytes, settings, ...(stop ? { stop } : {}) };
    this.withdraw = this.run.ask(question, machine, (answer) => {
      this.writing = answer?.type === "written" && !answer.done;
      if (answer?.type !== "written" || answer.bytes.length === 0) return;
      this.made = [...this.made, ...answer.bytes];
      this.seconds = answer.seconds;
      if (this.made.length > before) this.toFirst ??= answer.seconds;
    });
  }

  stop(): void {
    this.withdraw();
  }

  /** How likely each byte is at that place, behind all that stands before it. */
  look(place: number, manner: Manner, machine: Machine): void {
    this.place = place;
    if (this.weighing) return; // once that is answered
    this.weighing = true;
    this.run.ask({ type: "weigh", prompt: this.bytes.slice(0, place), settings: manner.settings }, machine, (answer) => {
      this.weighing = false;
      if (answer?.type !== "weighed" || this.place === null) return;
      if (this.place === place) this.likely = answer.likely;
      else this.look(this.place, manner, machine);
    });
  }

  /** Go on from there with another byte. */
  choose(byte: number, manner: Manner, machine: Machine): void {
    const kept = this.bytes.slice(0, this.place ?? 0);
    const prompt = kept.slice(0, this.prompt.length);
    this.prompt = kept.length < this.prompt.length ? [...prompt, byte] : prompt;
    this.goOn(kept.length < this.prompt.length ? [] : [...kept.slice(this.prompt.length), byte], manner, machine);
  }
}
