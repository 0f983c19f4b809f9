// An engine of its own for what is only tried: Python drives it, and the model in hand is not touched.
import { digest } from "../storage/shelf.ts";
import type { Place, Player } from "./contract.ts";
import { type DeviceFacts, Gpu } from "./gpu.ts";
import { makePlayer, startValues } from "./players.ts";
import type { CoreEvent, EngineName } from "./protocol.ts";
import { type Bridge, bridge, lastLine, type TrialPage } from "./python.ts";
import { say, tellProgress } from "./run.ts";

export class Trial implements TrialPage {
  private readonly gpu: Gpu | null;
  private readonly threads: number; // of WebAssembly; 0: all
  private player: Player | null = null;
  private fault: unknown = null;
  private stopped = false;

  /** The GPU, if there is one, is the trial's from here on. */
  private constructor(gpu: Gpu | null, threads: number) {
    this.gpu = gpu;
    this.threads = threads;
  }

  /** On an engine that is opened for it; unless one is named, WebAssembly. */
  static async on(engine: EngineName | undefined, threads: number): Promise<Trial> {
    return new Trial(engine === "webgpu" ? await Gpu.open() : null, threads);
  }

  /** The GPU to plan for, as a request of Python's has it. */
  device(): { device?: DeviceFacts } {
    return this.gpu ? { device: this.gpu.facts() } : {};
  }

  /** What Python answers, or the cause of its failing. */
  async answer<T extends object>(work: () => Promise<string>): Promise<T> {
    try {
      const told = JSON.parse(await work()) as T | { error: string };
      if ("error" in told) throw new Error(told.error);
      return told;
    } catch (error) {
      throw new Error(lastLine(this.gpu?.brokenBy ?? this.fault ?? error));
    } finally {
      this.player?.close();
      this.gpu?.close();
    }
  }

  async open(playbook: string): Promise<Bridge> {
    try {
      this.player = await makePlayer(JSON.parse(playbook), this.gpu, { threads: this.threads }, tellProgress);
    } catch (error) {
      this.fault = error;
      throw error;
    }
    return bridge(this.player, () => this.gpu?.brokenBy != null, (error) => (this.fault = error));
  }

  readonly startValues = startValues;

  async digest(places: string): Promise<string> {
    return digest(await this.player!.read(JSON.parse(places) as Place[]));
  }

  zeros(size: number): Uint8Array<ArrayBuffer> {
    return new Uint8Array(size);
  }

  now(): number {
    return performance.now() / 1000;
  }

  emit(text: string): void {
    say({ type: "event", event: JSON.parse(text) as CoreEvent });
  }

  stopping(): boolean {
    return this.stopped;
  }

  /** It is not wanted any more. A worker that is there for nothing else can be ended instead. */
  stop(): void {
    this.stopped = true;
  }
}
