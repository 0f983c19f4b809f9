// What the chosen run would take here: asked of the worker, and forgotten when another is chosen.
import { sentence } from "../lib/format";
import { site } from "../lib/site";
import type { EngineName, EstimatedRun } from "../worker/protocol";
import { Gone } from "../worker/remote";
import type { Calls } from "./connection";

export class Estimate {
  /** Seconds that a step took here, by preset, as far as any was measured. */
  steps = $state.raw<Record<string, number>>({});
  answer = $state.raw<EstimatedRun | null>(null);
  fault = $state("");
  measuring = $state(false);

  private readonly calls: () => Calls | null;
  private asked = 0;

  constructor(calls: () => Calls | null) {
    this.calls = calls;
  }

  async ask(wanted: Parameters<Calls["estimate"]>[0]): Promise<void> {
    this.forget();
    this.measuring = true;
    const mine = this.asked;
    try {
      const answer = await this.calls()?.estimate(wanted);
      if (mine === this.asked) this.answer = answer ?? null;
    } catch (error) {
      if (mine === this.asked && !(error instanceof Gone)) this.fault = sentence((error as Error).message);
    }
    if (mine === this.asked) this.measuring = false;
  }

  /** A step of that size took so long here. */
  learn(preset: string, seconds: number): void {
    this.steps = { ...this.steps, [preset]: seconds };
  }

  /** About how many seconds so many steps of a size take here; of one that was not measured, by how the sizes compare on our machines. */
  about(preset: string, steps: number, engine: EngineName): number | null {
    const known = this.steps[preset];
    if (known !== undefined) return known * steps;
    const [measured, seconds] = Object.entries(this.steps).at(-1) ?? [];
    const ours = new Map(site.speeds.find((speed) => speed.engine === engine)?.points);
    const [here, there] = [measured === undefined ? undefined : ours.get(measured), ours.get(preset)];
    return seconds === undefined || !here || !there ? null : (seconds * steps * there) / here;
  }

  /** Another run is chosen: what is still heard of this one is late. */
  forget(): void {
    this.asked += 1;
    this.answer = null;
    this.fault = "";
    this.measuring = false;
  }
}
