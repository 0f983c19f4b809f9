// The runs that this browser keeps, as the worker last told of them.
import type { Changes, Damaged, Difference, Library as Listed, Shelved } from "../worker/protocol";
import { Gone } from "../worker/remote";
import type { Calls } from "./connection";

export const LOOK_AGAIN = 2000; // ms: a tab that was just closed or reloaded may hold its run a moment longer
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
  damaged = $state.raw<Damaged[]>([]);
  used = $state<number | null>(null);
  available = $state<number | null>(null);
  differences = $state.raw<Difference[]>([]);
  journey = $state.raw<Journey | null>(null);
  exporting = $state(false);
  problem = $state(""); // with what was last asked of it
  /** The run that was under way when the page was left. */
  offer = $state.raw<Shelved | null>(null);

  private readonly calls: () => Calls | null;
  private readonly occupied: () => boolean; // by a current model
  private chances = CHANCES; // to offer something
  private compared = 0; // so often

  constructor(calls: () => Calls | null, occupied: () => boolean) {
    this.calls = calls;
    this.occupied = occupied;
  }

  /** What cannot be done is said; nothing has ended. */
  private async served<Answer>(asked: Promise<Answer> | undefined): Promise<Answer | undefined> {
    try {
      return await asked;
    } catch (error) {
      if (!(error instanceof Gone)) this.problem = (error as Error).message;
      return undefined;
    } finally {
      this.loaded = true;
    }
  }

  private async list(asked: Promise<Listed> | undefined): Promise<void> {
    const listed = await this.served(asked);
    if (!listed) return;
    Object.assign(this, listed);
    this.look();
  }

  refresh(): void {
    void this.list(this.calls()?.library());
  }

  rename(run: string, title: string): void {
    this.problem = "";
    void this.list(this.calls()?.rename({ run, title }));
  }

  /** One after the other: what is half deleted would be listed as damaged. */
  async remove(runs: string[]): Promise<void> {
    this.problem = "";
    for (const run of runs) await this.list(this.calls()?.delete(run));
  }

  async compare(runs: string[]): Promise<void> {
    const mine = (this.compared += 1);
    const found = runs.length > 1 ? await this.served(this.calls()?.compare(runs)) : [];
    if (mine === this.compared) this.differences = found ?? [];
  }

  export(runs: string[], deliver: (blob: Blob, name: string) => void): void {
    void this.made(this.calls()?.export(runs), deliver);
  }

  /** The run's capsule, for others to check. */
  share(run: string, deliver: (blob: Blob, name: string) => void): void {
    void this.made(this.calls()?.share(run), deliver);
  }

  private async made(asked: Promise<{ name: string; blob: Blob }> | undefined, deliver: (blob: Blob, name: string) => void): Promise<void> {
    this.problem = "";
    this.exporting = true;
    const file = await this.served(asked);
    this.exporting = false;
    if (file) deliver(file.blob, file.name);
  }

  async travel(run: string, prompt: string, settings: Changes): Promise<void> {
    this.problem = "";
    const began: Journey = { run, texts: new Map(), done: false };
    let journey = (this.journey = began);
    const go = (more: Partial<Journey>): void => {
      if (this.journey === journey) this.journey = journey = { ...journey, ...more };
    };
    const heard = ({ step, text }: { step: number; text: string }): void => go({ texts: new Map(journey.texts).set(step, text) });
    await this.served(this.calls()?.travel({ run, prompt, settings }, { heard }));
    go({ done: true });
  }

  /** There is a current model, or the user does not want the one that was offered. */
  withdraw(): void {
    this.offer = null;
    this.chances = 0;
  }

  /** The worker is gone, and the model with it. */
  offerAgain(): void {
    this.chances = CHANCES;
  }

  private look(): void {
    const [newest] = this.runs;
    if (this.occupied() || !this.durable || !newest || this.chances === 0) return;
    this.chances = newest.elsewhere ? this.chances - 1 : 0;
    if (!newest.elsewhere) this.offer = newest;
    else if (this.chances) setTimeout(() => this.refresh(), LOOK_AGAIN);
  }
}
