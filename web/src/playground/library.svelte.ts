// The runs that this browser keeps, as the worker last told of them; run.svelte.ts passes its messages on.
import type { FromWorker, Shelved, ToWorker } from "../engine/protocol";

type Message = Extract<FromWorker, { type: "library" | "compared" | "exported" | "travelled" | "unshelved" }>;

const LOOK_AGAIN = 2000; // ms: a tab that was just reloaded may hold its run a moment longer
const CHANCES = 2;

/** What the snapshots of a run have written. */
export interface Journey {
  run: string;
  texts: Map<number, string>; // by step
  done: boolean;
}

export class Library {
  loaded = $state(false);
  durable = $state(true);
  runs = $state.raw<Shelved[]>([]);
  used = $state<number | null>(null);
  available = $state<number | null>(null);
  differences = $state.raw<[label: string, values: (number | string)[]][]>([]);
  journey = $state.raw<Journey | null>(null);
  exporting = $state(false);
  problem = $state(""); // with what was last asked of it
  /** The run that was under way when the page was left. */
  offer = $state.raw<Shelved | null>(null);

  private readonly send: (message: ToWorker) => void;
  private deliver: ((blob: Blob, name: string) => void) | null = null;
  private chances = CHANCES; // to offer something

  constructor(send: (message: ToWorker) => void) {
    this.send = send;
  }

  refresh(): void {
    this.send({ type: "library" });
  }

  rename(run: string, title: string): void {
    this.problem = "";
    this.send({ type: "rename", run, title });
  }

  remove(run: string): void {
    this.problem = "";
    this.send({ type: "delete", run });
  }

  compare(runs: string[]): void {
    if (runs.length > 1) this.send({ type: "compare", runs });
    else this.differences = [];
  }

  export(runs: string[], deliver: (blob: Blob, name: string) => void): void {
    this.problem = "";
    this.deliver = deliver;
    this.exporting = true;
    this.send({ type: "export", runs });
  }

  /** The run's capsule, for others to check. */
  share(run: string, deliver: (blob: Blob, name: string) => void): void {
    this.problem = "";
    this.deliver = deliver;
    this.exporting = true;
    this.send({ type: "share", run });
  }

  travel(run: string, prompt: string, settings: Extract<ToWorker, { type: "travel" }>["settings"]): void {
    this.problem = "";
    this.journey = { run, texts: new Map(), done: false };
    this.send({ type: "travel", run, prompt, settings });
  }

  /** There is a model in hand, or the user does not want the one that was offered. */
  withdraw(): void {
    this.offer = null;
    this.chances = 0;
  }

  /** The worker is gone, and the model with it. */
  offerAgain(): void {
    this.chances = CHANCES;
  }

  take(message: Message, occupied: boolean): void {
    switch (message.type) {
      case "library":
        this.loaded = true;
        this.durable = message.durable;
        this.runs = message.runs;
        this.used = message.used;
        this.available = message.available;
        this.look(occupied);
        break;
      case "unshelved":
        this.problem = message.message;
        this.exporting = false;
        this.deliver = null;
        if (this.journey) this.journey = { ...this.journey, done: true };
        break;
      case "compared":
        this.differences = message.differences;
        break;
      case "exported":
        this.exporting = false;
        this.deliver?.(message.blob, message.name);
        this.deliver = null;
        break;
      case "travelled": {
        if (this.journey?.run !== message.run) break;
        const texts = new Map(this.journey.texts).set(message.step, message.text);
        this.journey = { run: message.run, texts, done: message.last };
        break;
      }
    }
  }

  private look(occupied: boolean): void {
    const [newest] = this.runs;
    if (occupied || !this.durable || !newest || this.chances === 0) return;
    this.chances = newest.elsewhere ? this.chances - 1 : 0;
    if (!newest.elsewhere) this.offer = newest;
    else if (this.chances) setTimeout(() => this.refresh(), LOOK_AGAIN);
  }
}
