// What a lab is doing now: one thing at a time, which can be ended, and of which is noticed when it says nothing for a while.
import { Gone } from "../worker/remote";
import type { Trouble } from "./trouble";

const SILENCE = 6000; // ms

export class Job<Task extends string> {
  task = $state<Task | null>(null); // what runs now
  slow = $state(false); // it has said nothing for a while
  trouble = $state.raw<Trouble | null>(null); // why it ended
  private ending: AbortController | null = null;
  private watch: ReturnType<typeof setTimeout> | undefined;

  readonly busy = $derived(this.task !== null);

  stop(): void {
    this.ending?.abort();
    this.ending = null;
    clearTimeout(this.watch);
    [this.task, this.slow] = [null, false];
  }

  /** Something was heard: it is not an endless loop yet. */
  heard(): void {
    clearTimeout(this.watch);
    this.slow = false;
    this.watch = setTimeout(() => (this.slow = true), SILENCE);
  }

  /** Ends what runs, and does this instead; `inWords` tells of an error's text. */
  async run(task: Task, inWords: (text: string) => Trouble, work: (ended: AbortSignal) => Promise<void>): Promise<void> {
    this.stop();
    const ending = (this.ending = new AbortController());
    [this.task, this.trouble] = [task, null];
    this.heard();
    try {
      await work(ending.signal);
    } catch (error) {
      if (ending.signal.aborted) return;
      const closed = "The room for Python has closed. Try once more.";
      this.trouble = inWords(error instanceof Gone ? closed : error instanceof Error ? error.message : String(error));
    } finally {
      ending.abort();
      if (this.ending === ending) this.stop();
    }
  }
}
