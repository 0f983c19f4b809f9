// Measuring this machine, in a worker of its own: the model in hand stays where it is.
import { corpus } from "../lib/corpus";
import { site } from "../lib/site";
import { sentence } from "../lib/format";
import type { MeasureEvent } from "../worker/measure";
import type { Measured } from "../worker/protocol";
import { Gone } from "../worker/remote";
import { type Connection, openWorker } from "../state/connection";

const NAMES = { webgpu: "WebGPU", wasm: "WebAssembly" };

export class Measurement {
  preset = $state(site.benchPreset);
  running = $state(false);
  progress = $state("");
  problem = $state("");
  result = $state.raw<(Measured & { preset: string }) | null>(null);

  private worker: Connection | null = null;
  private reading = "";

  async start(): Promise<void> {
    const { preset } = this;
    this.running = true;
    this.result = null;
    this.problem = "";
    this.progress = "Starting …";
    try {
      const text = await corpus(site.corpus);
      if (!this.running) return;
      this.worker = openWorker("tinygpt-measure", (why) => this.fail(`The engine's worker died${why ? ` (${why})` : ""}.`));
      const result = await this.worker.calls.measure({ preset, text }, { heard: (event) => this.hear(event) });
      this.result = { ...result, preset };
      this.end();
    } catch (fault) {
      if (!(fault instanceof Gone)) this.fail(fault instanceof Error ? fault.message : String(fault));
    }
  }

  end(): void {
    this.worker?.end();
    this.worker = null;
    this.running = false;
    this.progress = "";
  }

  private hear(event: MeasureEvent): void {
    if (event.event === "reading") {
      this.reading = `Reading ${event.done + 1} of ${event.of}: ${NAMES[event.engine]}, round ${event.round}`;
      this.progress = `${this.reading}, warming up …`;
    } else if (event.event === "compiling") this.progress = `${this.reading}, compiling ${event.made} of ${event.of}`;
    else if (event.event === "measuring") this.progress = `${this.reading}, ${event.steps} steps`;
  }

  private fail(why: string): void {
    this.problem = sentence(why);
    this.end();
  }
}
