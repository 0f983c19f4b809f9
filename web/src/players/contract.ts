// Whatever computes in JavaScript, as Python drives it: core/engine/contract.py's Player.
import type { Place } from "../generated/protocol.ts";

/** Buffers, and programs that run on them. A promise is rejected with one clear sentence. */
export interface Player {
  readonly threads: number; // of the CPU
  readonly bytes: number; // of memory, all taken at the start
  describe(): string;
  /** Bytes to these places one after the other; a place that they do not fill keeps the rest of what it has. */
  write(places: Place[], data: Uint8Array<ArrayBuffer>): Promise<void>;
  /** What lies there once all that was asked for before is done. */
  read(places: Place[]): Promise<Uint8Array<ArrayBuffer>>;
  /** Runs a program so many times; how many were done, fewer only where `stop` was called. A GPU may answer before. */
  run(mode: string, times: number): Promise<number>;
  /** Ends the run under way as soon as can be. */
  stop(): void;
  /** Runs a program once: the seconds of each op or dispatch. */
  clock(mode: string): Promise<Float64Array<ArrayBuffer>>;
  close(): void;
}

export function totalSize(places: Place[]): number {
  return places.reduce((sum, [, , size]) => sum + size, 0);
}
