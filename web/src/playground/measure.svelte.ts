// Measuring this machine, in a worker of its own: the model in hand stays where it is.
import { corpus } from "../lib/corpus";
import { site } from "../lib/site";
import type { FromWorker, Measured } from "../engine/protocol";
import { openWorker } from "./worker";

const NAMES = { webgpu: "WebGPU", wasm: "WebAssembly" };

export class Measurement {
  preset = $state(site.benchPreset);
  running = $state(false);
  progress = $state("");
  problem = $state("");
  result = $state.raw<(Measured & { preset: string }) | null>(null);

  private worker: Worker | null = null;
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
      this.worker = openWorker("tinygpt-measure");
      this.worker.onmessage = ({ data }: MessageEvent<FromWorker>) => this.take(data);
      this.worker.onerror = (event) => this.fail(`The engine's worker died${event.message ? ` (${event.message})` : ""}.`);
      this.worker.postMessage({ type: "measure", preset, text });
    } catch (fault) {
      this.fail(fault instanceof Error ? fault.message : String(fault));
    }
  }

  end(): void {
    this.worker?.terminate();
    this.worker = null;
    this.running = false;
    this.progress = "";
  }

  private take(message: FromWorker): void {
    if (message.type === "measuring") {
      this.reading = `Reading ${message.done + 1} of ${message.of}: ${NAMES[message.engine]}, round ${message.round}`;
      this.progress = `${this.reading}, warming up …`;
    } else if (message.type === "progress") this.progress = `${this.reading}, compiling ${message.made} of ${message.of}`;
    else if (message.type === "event" && message.event.event === "measuring") this.progress = `${this.reading}, ${message.event.steps} steps`;
    else if (message.type === "measured") {
      this.result = { ...message, preset: this.preset };
      this.end();
    } else if (message.type === "error") this.fail(message.message);
  }

  private fail(why: string): void {
    this.problem = `${why.charAt(0).toUpperCase()}${why.slice(1)}${why.endsWith(".") ? "" : "."}`;
    this.end();
  }
}
