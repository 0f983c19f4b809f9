// An engine of its own for what is only tried: Python drives it, and the model in hand is not touched.
import { digest } from "../storage/shelf.ts";
import * as assets from "./assets.ts";
import type { GpuPlaybook, Place, Playbook, Player } from "./contract.ts";
import type { Gpu } from "./gpu.ts";
import { GpuPlayer } from "./gpuplayer.ts";
import type { CoreEvent } from "./protocol.ts";
import { type Bridge, bridge, lastLine, type TrialPage } from "./python.ts";
import { say } from "./run.ts";
import { WasmPlayer } from "./wasmplayer.ts";

export class Trial implements TrialPage {
  private readonly gpu: Gpu | null;
  private readonly threads: number; // of WebAssembly; 0: all
  private player: Player | null = null;
  private fault: unknown = null;

  /** The GPU, if there is one, is the trial's from here on. */
  constructor(gpu: Gpu | null, threads: number) {
    this.gpu = gpu;
    this.threads = threads;
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
      this.player = await this.makePlayer(JSON.parse(playbook));
    } catch (error) {
      this.fault = error;
      throw error;
    }
    return bridge(this.player, () => this.gpu?.brokenBy != null, (error) => (this.fault = error));
  }

  private makePlayer(playbook: unknown): Promise<Player> {
    const { kernels, shaders } = assets;
    if (this.gpu) return GpuPlayer.create(this.gpu, playbook as GpuPlaybook, shaders, (made, of) => say({ type: "progress", made, of }));
    return WasmPlayer.create(playbook as Playbook, { kernels, threads: this.threads });
  }

  async startValues(playbook: string, places: string): Promise<Uint8Array<ArrayBuffer>> {
    const player = await WasmPlayer.create(JSON.parse(playbook) as Playbook, { kernels: assets.kernels, threads: 1 });
    await player.run("init", 1);
    const drawn = await player.read(JSON.parse(places) as Place[]);
    player.close();
    return drawn;
  }

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

  /** Whoever does not want it any more ends the worker. */
  stopping(): boolean {
    return false;
  }
}
