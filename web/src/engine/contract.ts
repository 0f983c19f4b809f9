// The contract between Python and whatever computes in JavaScript: core/run/contract.py's Player, and the plain data
// that core/plan makes for it.

/** Bytes of a buffer. */
export type Place = [buffer: number, offset: number, size: number];

/** What the WebAssembly player takes (core/plan/cpu/lowering.py): one arena, and each program's words. */
export interface Playbook {
  buffers: [arena: number]; // bytes
  programs: Record<string, { words: number[]; commit: number }>; // by mode; see run.cpp for `commit`
}

/** A WGSL kernel: the files' text one after the other, and the values of its overrides. */
export interface PipelinePlaybook {
  files: string[];
  entry: string;
  constants: [name: string, isFloat: boolean | number, valueOrBits: number][];
  bindings: string; // a letter each: r where the kernel only reads, w where it writes
}

/** A pipeline's number, its grid (x, y, z), then the place of each binding. */
export type DispatchPlaybook = number[];

/** What a GPU's player takes (core/plan/gpu/lowering.py). */
export interface GpuPlaybook {
  buffers: number[]; // bytes of each; they begin as zeros
  pipelines: PipelinePlaybook[];
  programs: Record<string, DispatchPlaybook[]>; // by mode
}

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
