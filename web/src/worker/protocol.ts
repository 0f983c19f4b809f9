// What the page and its worker hand each other, beside what Python describes. The worker's methods are in worker.ts; the page
// never speaks to an engine or to Python directly.
import type { Changes, Choices, CoreEvent, Damage, Ended, EngineName, Estimated, Frame, KeptText, Point } from "../generated/protocol.ts";
import type { RunConfig, ShelvedRun, WebGpu } from "../generated/protocol.ts";

export type * from "../generated/protocol.ts";

export type WasmBuild = "scalar" | "simd" | "relaxed";
export const BUILD_NAMES: Record<WasmBuild, string> = { relaxed: "relaxed SIMD", simd: "SIMD", scalar: "no SIMD" };

export function adapterLabel({ adapter, software }: WebGpu): string {
  return software ? `software adapter: ${adapter}, not a GPU` : adapter;
}

/** What this tab can do. `note` is one sentence for the user where something is missing, else empty. */
export interface Capabilities {
  builds: WasmBuild[]; // that run here, the best first
  threads: number; // at most: the cores, or 1 without cross-origin isolation
  isolated: boolean; // whether memory can be shared among threads
  memory64: boolean;
  webgpu: WebGpu | null;
  note: string;
}

/** A software adapter can be chosen, but is never the default. */
export function defaultEngine(capabilities: Capabilities | null): EngineName {
  return capabilities?.webgpu && !capabilities.webgpu.software ? "webgpu" : "wasm";
}

/** What adapters stand on: a model, as a .tinygpt file, under the sha256 of its weights. */
export interface Base {
  title: string;
  sha256: string;
  bytes: Uint8Array<ArrayBuffer>;
}

/** Where a text is: the whole corpus, of which core splits off the validation part, or the sha256 of one that is kept. */
export type Text = Uint8Array<ArrayBuffer> | string;

/** What computes. */
export interface Machine {
  engine: EngineName;
  threads: number; // of WebAssembly; 0: as many as the machine has
}

/** What a model wrote as it learned, and its losses on the way. */
export interface Life {
  title: string;
  parameters: number;
  film: Frame[];
  history: Point[];
}

/** A run that is to start. */
export interface Start extends Machine {
  preset: string;
  recipe: string;
  changes: Changes;
  text: Text;
  textName: string;
  title: string; // what the run is called in the library
  run?: string; // that is continued; absent: a new one
  resume?: ModelBytes | "in hand"; // a file to continue from, or the model in the worker; its settings win over the preset's
  adapt?: { lora: Changes; title: string }; // train adapters for that model, which stays as it is; what the model is called
  sure?: boolean; // whatever doubt there is
  seconds?: number; // within which the run is to end: its size is chosen by measurement
  hardness?: number; // of the text, for that choice; absent: it is measured
}

/** What a model in a player is. */
export interface Started {
  run: string;
  config: RunConfig;
  engine: string; // one line: what computes, and how much memory it has
  parameters: number;
  arenaBytes: number;
  trainBytes: number;
  valBytes: number;
  advice: string[]; // core's remarks on corpus, model and steps that do not fit one another
}

/** Kernels that were compiled for the GPU. */
export interface Compiling {
  event: "compiling";
  made: number;
  of: number;
}

/** What is heard of a run until it is kept: core's events are between the two. */
export type RunEvent = CoreEvent | Compiling | ({ event: "started" } & Started) | ({ event: "stopped" } & Ended);

/** What is heard while something is tried. */
export type TrialEvent = CoreEvent | Compiling;

/** The memory may not do: nothing has begun. Ask, and start the same again, sure. */
export interface Doubt {
  doubt: string;
}

/** What the page is told of an error: one sentence. */
export interface Failure {
  message: string;
  instead?: SavedFile | null; // where the engine is gone with the model in it, the last state of it that was kept
  lost?: boolean; // the GPU is gone
}

/** A run in the library. */
export interface Shelved extends ShelvedRun {
  elsewhere: boolean; // open in another tab
}

/** A run whose title, text or checkpoints' records cannot be read. It stays until the user deletes it. */
export interface Damaged extends Damage {
  id: string;
  bytes: number;
}

/** A .tinygpt file, or one of adapters with what they stand on. */
export interface ModelBytes {
  bytes: Uint8Array<ArrayBuffer>;
  base?: Base;
}

export interface SavedFile extends ModelBytes {
  name: string;
  step: number;
}

/** A file of which every byte was found to be sound, and what it says of its model. */
export interface CheckedFile {
  file: SavedFile;
  config: RunConfig;
  parameters: number;
  loss: number | null;
  history: Point[];
  sample: string;
  learnt: { name: string; sha256: string } | null; // the text that it learnt from, where it says so
  leftOut: string; // a sentence on what was not understood, or of a run that was kept on what was lost; or nothing
  kept?: { run: string; title: string; text: KeptText; events: CoreEvent[] }; // of a run in the library, with its events so far
}

export interface Library {
  durable: boolean; // whether it outlives the tab
  runs: Shelved[]; // the newest first
  damaged: Damaged[];
  used: number | null; // bytes of this site's storage, and how many it may have
  available: number | null;
}

/** How much of the probability behind byte number `at` moved when each byte was hidden, those before `first` left out. */
export interface Mattered {
  text: Uint8Array<ArrayBuffer>;
  at: number;
  first: number;
  step: number;
  values: Float32Array<ArrayBuffer>;
}

/** What a model makes of a text: core/look/inside.py says what the tensors are. The last T bytes are looked into. */
export interface Looked {
  step: number;
  text: Uint8Array<ArrayBuffer>;
  first: number; // of the bytes that are looked into
  losses: Float32Array<ArrayBuffer>; // [length - 1]: of each byte but the first, in nats
  heads: number;
  attention: Float32Array<ArrayBuffer>[]; // of each block [heads, T, T]
  lenses: Float32Array<ArrayBuffer>[]; // [T, 256] logits: before each block, then the model's own
  /** The residual stream from stop to stop, as it is at each place. */
  flow: { part: string; stream: Float32Array<ArrayBuffer>; made: Float32Array<ArrayBuffer> | null }[];
  parts: string[];
  tensors: string[];
  tensor: { name: string; shape: number[]; values: Float32Array<ArrayBuffer> } | null;
}

/** What is heard of a visit to a datasets server: how far it is, or what it waits for. */
export type Visiting = { size: number; rows: number } | { wait: number };

/** What a visit found. */
export type Visited = { looked: Choices } | { text: Uint8Array<ArrayBuffer>; description: string };

/** What of a text stands in the one that was learnt from: tinygpt/inside/origins.py. */
export interface Origins {
  covered: Int32Array; // of each byte: how long the longest stretch is that it stands in
  byChance: number; // what stands in longer ones is remembered,
  remembered: number; // this share of it
  stretches: { start: number; length: number; place: number; before: string; text: string; behind: string }[]; // the longest
}

/** What a run would take. */
export interface EstimatedRun extends Estimated {
  bytes: number; // of memory
  parameters: number;
}
