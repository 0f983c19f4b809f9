// What Python has of its surroundings wherever it computes: a player, a clock, and somebody who hears of it.
import {
  type Bridge,
  type CoreEvent,
  type EngineWorker,
  type GpuPlaybook,
  type Json,
  parse,
  type Playbook,
} from "../generated/protocol.ts";
import type { Player } from "../players/contract.ts";
import type { Gpu } from "../players/gpu.ts";
import { makePlayer, startValues } from "./players.ts";
import type { TrialEvent } from "./protocol.ts";
import { lastLine } from "./answers.ts";
import { bridge } from "./python.ts";
import type { WasmOptions } from "../players/wasmplayer.ts";

export class Driven implements EngineWorker {
  protected player: Player | null = null;
  protected readonly gpu: Gpu | null;
  protected readonly tell: (event: TrialEvent) => void;
  private readonly options: Omit<WasmOptions, "kernels">;
  private fault: unknown = null;
  private stopped = false;

  /** The GPU, if there is one, is its own from here on. */
  constructor(gpu: Gpu | null, options: Omit<WasmOptions, "kernels">, tell: (event: TrialEvent) => void) {
    this.gpu = gpu;
    this.options = options;
    this.tell = tell;
  }

  /** Why the player is gone, if it is. */
  get lost(): Error | null {
    return this.gpu?.brokenBy ?? null;
  }

  /** The cause of an error: Python sees that something failed, but not well why. */
  protected why(error: unknown): string {
    return lastLine(this.lost ?? this.fault ?? error);
  }

  /** It is not wanted any more. */
  requestStop(): void {
    this.stopped = true;
    this.player?.stop();
  }

  close(): void {
    this.player?.close();
    this.gpu?.close();
  }

  // --- what Python asks for
  async open(playbook: Json<Playbook | GpuPlaybook>): Promise<Bridge> {
    const progress = (made: number, of: number): void => this.tell({ event: "compiling", made, of });
    try {
      this.player = await makePlayer(playbook, this.gpu, this.options, progress);
    } catch (error) {
      this.fault = error;
      throw error;
    }
    const broken = (): boolean => this.lost !== null;
    return bridge(this.player, broken, (error) => (this.fault = error));
  }

  readonly startValues = startValues;

  zeros(size: number): Uint8Array<ArrayBuffer> {
    return new Uint8Array(size);
  }

  now(): number {
    return performance.now() / 1000;
  }

  emit(event: Json<CoreEvent>): void {
    this.tell(parse(event));
  }

  stopping(): boolean {
    return this.stopped;
  }
}
