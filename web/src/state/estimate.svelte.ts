// What the chosen run would take here: asked of the worker, and forgotten when another is chosen.
import { sentence } from "../lib/format";
import type { EstimatedRun } from "../worker/protocol";
import { Gone } from "../worker/remote";
import type { Calls } from "./connection";

export class Estimate {
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

  /** Another run is chosen: what is still heard of this one is late. */
  forget(): void {
    this.asked += 1;
    this.answer = null;
    this.fault = "";
    this.measuring = false;
  }
}
