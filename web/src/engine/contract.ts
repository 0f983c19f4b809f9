// The contract between Python and whatever computes in JavaScript: engines/base.py, and the plain data of
// core/plan/cpu/recipe.py and core/plan/gpu/recipe.py.
import type { EngineName } from "./protocol.ts";

/** What every recipe states of a run. */
export interface RunFacts {
  batch: number;
  ctx: number;
  grad_accum: number;
  seed: number;
  parameters: number;
  moves: [file: number, flat: number, size: number][]; // from the model file's order to the flat vectors', in floats
  draws: [place: number, size: number, index: number, high: number, low: number][]; // start values: a normal's std
  fills: [place: number, size: number, high: number, low: number][];
}

/** All that the WebAssembly engine needs to know of a run, made by core/plan/cpu/recipe.py. Places and sizes are in floats. */
export interface Recipe extends RunFacts {
  arena: number;
  places: Record<string, number>; // of the persistent tensors
  words: Record<string, number[]>; // by mode
}

/** A WGSL kernel: the files' text one after the other, and the values of its overrides. */
export interface PipelineRecipe {
  files: string[];
  entry: string;
  constants: [name: string, isFloat: boolean | number, valueOrBits: number][];
  bindings: string; // a letter each: r where the kernel only reads, w where it writes
}

/** A pipeline's number, its grid (x, y, z), then the buffer, offset and size in bytes of each binding. */
export type DispatchRecipe = number[];

/** What a GPU replays. */
export interface GpuPrograms {
  buffers: number[]; // bytes of each; they begin as zeros
  pipelines: PipelineRecipe[];
  programs: Record<string, DispatchRecipe[]>; // by mode
}

/** All that the WebGPU engine needs to know of a run, made by core/plan/gpu/recipe.py. Draws and fills are of the weights. */
export interface GpuRecipe extends RunFacts, GpuPrograms {
  places: Record<string, GpuPlace>; // of the small persistent tensors
  inputs: number; // the buffer with all of them that the host writes
  segments: [flat: number, floats: number, weights: number, m: number, v: number][]; // and the buffers that hold them
}

export type GpuPlace = [buffer: number, bytes: number, floats: number];

/** Where a tensor lies, as the engine's own recipe says it. */
export type Place = number | GpuPlace;

/** Flat vectors over all parameters, in the order of the model file. */
export interface State {
  step: number;
  w: Float32Array;
  m: Float32Array | null;
  v: Float32Array | null;
}

export interface StepMetrics {
  step: number;
  loss: number;
  gradNorm: number;
}

/** An engine holds one model, its optimizer state and the corpus. A promise is rejected with one clear sentence. */
export interface Engine {
  readonly name: EngineName;
  readonly threads: number; // of the CPU
  readonly bytes: number; // of memory, all taken at the start
  /** How many steps should pass between two calls of readMetrics; it may change as the engine learns how fast it is. */
  readonly metricsEvery: number;
  describe(): string;
  loadCorpus(train: Uint8Array, val: Uint8Array): void;
  /** `rates` are AdamW's, from core/feeding.py. May return before the work is done. */
  trainStep(step: number, rates: ArrayLike<number>, offsets: ArrayLike<number>): Promise<void>;
  readMetrics(): Promise<StepMetrics[]>;
  evalLoss(offsets: ArrayLike<number>): Promise<number>;
  exportState(): Promise<State>;
  importState(state: State): Promise<void>;
  /** Back to the start values, as a new engine has them. */
  restart(): Promise<void>;
  prefill(tokens: Uint8Array): Promise<Float32Array>;
  decode(token: number): Promise<Float32Array>;
  close(): void;
}

/** What Python asks of an engine in another process besides: runner.ts. */
export interface DrivenEngine extends Engine {
  setStep(step: number): void;
  /** A stretch of the weights or a moment, in the order of the model file. */
  take(name: string, start: number, size: number): Promise<Float32Array>;
  put(name: string, start: number, values: Float32Array): Promise<void>;
  read(place: Place, floats: number): Promise<Uint8Array<ArrayBuffer>>;
  write(place: Place, bytes: Uint8Array<ArrayBuffer>): Promise<void>;
  /** Runs a program on what was written to its places. */
  run(mode: string): Promise<void>;
}

export const INIT = 1; // core/rng.py: the stream of start values

export function doubleOf(high: number, low: number): number {
  const view = new DataView(new ArrayBuffer(8));
  view.setUint32(0, high);
  view.setUint32(4, low);
  return view.getFloat64(0);
}
