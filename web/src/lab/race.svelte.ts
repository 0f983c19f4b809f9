// A run with changed sources, watched beside the original's.
import { corpus } from "../lib/corpus";
import { site } from "../lib/site";
import type { LabEngine } from "./engines";
import type { Asked, Loss, TrainEvent } from "./protocol";
import type { Room } from "./rooms";

/** One of two runs that are watched side by side. */
export interface Curve {
  engine: string;
  rows: Loss[];
  done: boolean;
}

const NOTHING: Curve = { engine: "", rows: [], done: false };
const SPEC_TEXT = 20_000; // bytes, for the specification's tiny models

export class Race {
  curves = $state.raw<{ original: Curve; edit: Curve } | null>(null);
  steps = $state(0); // of those curves
  compiling = $state(""); // kernels for the GPU, as far as they are

  readonly done = $derived(this.curves !== null && this.curves.original.done && this.curves.edit.done);

  clear(): void {
    this.curves = null;
  }

  begin(steps: number): void {
    [this.curves, this.steps, this.compiling] = [{ original: NOTHING, edit: NOTHING }, steps, ""];
  }

  /** Trains both, once it has begun. */
  async run(rooms: { original: Promise<Room>; edit: Promise<Room> }, asked: Asked, engine: LabEngine, heard: () => void): Promise<void> {
    const whole = await corpus(site.corpus);
    const one = async (which: "original" | "edit"): Promise<void> => {
      const { calls } = await rooms[which];
      const line = { heard: (event: TrainEvent): void => (heard(), this.note(which, event)) };
      const text = engine === "spec" ? whole.slice(0, SPEC_TEXT) : whole;
      if (engine === "spec") await calls.specify({ ...asked, steps: this.steps, text }, line);
      else await calls.train({ ...asked, steps: this.steps, text, engine, threads: 0 }, line);
      this.curves = { ...this.curves!, [which]: { ...this.curves![which], done: true } };
    };
    // One after the other where both would want all cores, or the GPU; side by side where each has one.
    if (engine === "spec") await Promise.all([one("edit"), one("original")]);
    else {
      await one("edit");
      await one("original");
    }
  }

  private note(which: "original" | "edit", event: TrainEvent): void {
    const before = this.curves![which];
    if (event.event === "compiling") this.compiling = `Compiling kernels: ${event.made} of ${event.of}`;
    if (event.event === "begun") this.curves = { ...this.curves!, [which]: { ...before, engine: event.engine } };
    if (event.event === "losses") this.curves = { ...this.curves!, [which]: { ...before, rows: [...before.rows, ...event.rows] } };
  }
}
