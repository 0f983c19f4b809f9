// The contract between Python and whatever computes in JavaScript: engines/base.py, and core/recipe.py's plain data.

/** All that an engine needs to know of a run, made by core/recipe.py. Places and sizes are in floats. */
export interface Recipe {
  batch: number;
  ctx: number;
  grad_accum: number;
  seed: number;
  arena: number;
  parameters: number;
  places: Record<string, number>; // of the persistent tensors
  moves: [file: number, flat: number, size: number][];
  draws: [place: number, size: number, index: number, high: number, low: number][];
  fills: [place: number, size: number, high: number, low: number][];
  words: Record<string, number[]>; // by mode
}

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
  readonly threads: number;
  describe(): string;
  loadCorpus(train: Uint8Array, val: Uint8Array): void;
  /** `rates` are AdamW's, from core/feeding.py. */
  trainStep(step: number, rates: ArrayLike<number>, offsets: ArrayLike<number>): Promise<void>;
  readMetrics(): Promise<StepMetrics[]>;
  evalLoss(offsets: ArrayLike<number>): Promise<number>;
  exportState(): Promise<State>;
  importState(state: State): Promise<void>;
  prefill(tokens: Uint8Array): Promise<Float32Array>;
  decode(token: number): Promise<Float32Array>;
  close(): void;
}

export function doubleOf(high: number, low: number): number {
  const view = new DataView(new ArrayBuffer(8));
  view.setUint32(0, high);
  view.setUint32(4, low);
  return view.getFloat64(0);
}
