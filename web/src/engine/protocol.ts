// What the page and its worker say to each other. The page never speaks to an engine or to Python directly.
//
//   const worker = new Worker(new URL("../engine/worker.ts", import.meta.url), { type: "module" });
//   worker.onmessage = ({ data }: MessageEvent<FromWorker>) => ...
//
// The worker first says "ready". After "start" it may tell of "progress", then sends "started", then core's events, then one of "stopped" or
// "error"; after either another "start" may follow. "open" is answered by "opened", "save" by "saved", "part" by "parted", "write" by pieces of "written", "weigh"
// by "weighed", or by "refused" or "error". "look" is answered by "looked" or "unseen", "trace" by "traced" or "untraced",
// whatever else is under way. A "doubt" may come instead of the first two. "check" is answered by "checked" or "error". Until "started", "opened" or "checked" the
// model that is in the worker stays there.

/** Any settings of core/config.py's ModelConfig and TrainConfig, by name, over the preset's. */
export type Changes = Record<string, number | string>;

export type WasmBuild = "scalar" | "simd" | "relaxed";
export const BUILD_NAMES: Record<WasmBuild, string> = { relaxed: "relaxed SIMD", simd: "SIMD", scalar: "no SIMD" };

export type EngineName = "webgpu" | "wasm";

/** A GPU's adapter. A software adapter computes on the CPU: it is never called a GPU. */
export interface WebGpu {
  adapter: string;
  software: boolean;
}

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

/** A field of core/settings.py: enough to draw a knob. Numbers have low and high, texts may have choices. */
export interface Knob {
  section: "model" | "train" | "lora" | "sample";
  name: string;
  kind: "int" | "float" | "text";
  default: number | string;
  low: number | null;
  high: number | null;
  choices: string[] | null;
  help: string;
  label: string; // what the page calls it
  fixed: boolean; // a model has it for life
}

export interface RunConfig {
  model: Record<string, number | string>;
  train: Record<string, number | string>;
  lora?: Record<string, number | string>; // of adapters
}

/** What adapters stand on: a model, as a .tinygpt file, under the sha256 of its weights. */
export interface Base {
  title: string;
  sha256: string;
  bytes: Uint8Array<ArrayBuffer>;
}

/** What to write on from. */
export interface Prompt {
  id: number; // comes back with every answer
  prompt: number[]; // bytes: it may begin or end within a character
  settings: Changes; // SampleConfig's by name, over its defaults
}

export type ToWorker =
  | {
      type: "start";
      preset: string;
      recipe: string;
      changes: Changes;
      text: Uint8Array<ArrayBuffer> | string; // the whole corpus, of which core splits off the validation part, or the sha256 of one that is kept
      title?: string; // what the run is called in the library, and its text
      textName?: string;
      run?: string; // that goes on; absent: a new one
      engine?: EngineName; // absent: WebAssembly
      threads?: number; // of WebAssembly; 0 or absent: as many as the machine has
      build?: WasmBuild; // absent: the best one that runs
      resume?: ModelBytes | "in hand"; // a file to go on from, or the model in the worker; its settings win over the preset's
      adapt?: { lora: Changes; title: string }; // train adapters beside that model, which stays as it is; LoraConfig's settings, and what the model is called
      prompt?: string; // what samples begin with
      sure?: boolean; // whatever doubt there is
      seconds?: number; // within which the run is to end: size and settings are chosen by measurement then, and told of by "option" events
    }
  | { type: "check"; name: string; bytes: Uint8Array<ArrayBuffer>; inHand?: { title: string; file: ModelBytes | null } } // a file, which comes back with the answer; adapters may be for the model in hand, of a file or of the worker
  | { type: "part"; which: "base" | "merged"; file?: ModelBytes } // of the adapters in hand, or of a file's: what they stand on, or make of it; answered by "parted"
  | { type: "open"; resume: ModelBytes; engine: EngineName; threads: number; sure?: boolean } // takes a file's model to the worker, to write
  | { type: "stop" } // ends the run after the step in progress
  | { type: "library" } // answered by "library", as the next three are
  | { type: "rename"; run: string; title: string }
  | { type: "delete"; run: string }
  | { type: "compare"; runs: string[] }
  | { type: "take"; run: string; step?: number } // a run's model, answered by "checked"; of an earlier step: as a run that leaves it there
  | { type: "export"; runs: string[] } // answered by "exported"
  | { type: "travel"; run: string; prompt: string; settings: Changes } // a text of each of its snapshots, answered by "travelled" each
  | {
      type: "look"; // into the model as it stands; while training, at the next step
      text: Uint8Array<ArrayBuffer>;
      scales: [part: string, factor: number][];
      tensor: string; // whose values are wanted, or nothing
      file?: ModelBytes; // whose model it is, from now on; absent: the worker's, or the last file's
    }
  | {
      type: "estimate"; // what a run would take; answered by "estimated" or "unestimated"
      id: number;
      preset: string; // of a new run
      recipe: string;
      inHand: { config: RunConfig; step: number } | null; // the model that goes on or, with `lora`, is taught
      lora: Changes | null;
      changes: Changes;
      text: Uint8Array<ArrayBuffer> | string; // as of "start"
      engine: EngineName;
      threads: number;
    }
  | { type: "survey"; id: number; text: Uint8Array<ArrayBuffer> } // what a text is like, from its front; answered by "surveyed"
  | { type: "advise"; id: number; request: AdviceRequest } // whether a text suits a run; answered by "advised"
  | { type: "teaching"; id: number; config: RunConfig; lora: Changes } // what adapters of a model come to; answered by "teaching"
  | { type: "visit"; id: number; request: VisitRequest; token: string } // Hugging Face; answered by "visited", several times
  | { type: "leave" } // the visit under way: nothing more is heard of it
  | { type: "measure"; preset: string; text: Uint8Array<ArrayBuffer> } // this machine: "measuring" follows, and events, then "measured"
  | { type: "share"; run: string } // its capsule, answered by "exported"
  | { type: "inspect"; capsule: Uint8Array<ArrayBuffer> } // a capsule's file, answered by "inspected"
  | {
      type: "replay"; // a stretch of a capsule's run; events follow, then "judged"
      capsule: Uint8Array<ArrayBuffer>;
      from: KeptStep | File | null; // what it begins with: what is kept of a run, a model file, or null: start values
      steps: number | null; // null: all that are left
      text: Uint8Array<ArrayBuffer> | null; // null: it is among those that are kept
      engine: EngineName;
      threads: number;
    }
  | { type: "trace"; text: Uint8Array<ArrayBuffer>; corpus: Uint8Array<ArrayBuffer> | string; valFraction: number } // in what was learnt of a corpus, or of the kept one of that sha256
  | { type: "keep" } // the run under way, soon: the tab may be gone
  | { type: "save" } // the model as it stands, as a .tinygpt file; while training, at the next step
  | ({ type: "write"; stop?: string } & Prompt) // a text, as far as `stop` where that is written; while training, between two blocks of steps
  | { type: "hush"; id: number } // no more of that text
  | ({ type: "weigh" } & Prompt); // how likely each byte is to be drawn next

/** core/run/trainer.py's events; steps come in blocks (core/tab/session.py). */
export type CoreEvent =
  | {
      event: "steps"; // those of a block, in their order
      rows: [step: number, loss: number, gradNorm: number, lr: number][];
      tokens_per_s: number;
      eta_s: number;
    }
  | { event: "base"; step: number; val_loss: number } // of what adapters stand on
  | { event: "eval"; step: number; val_loss: number; best: boolean; band?: [low: number, high: number] } // of sound runs by then
  | { event: "sample"; step: number; text: string }
  | { event: "advice"; step: number; kind: string; text: string } // what looks wrong and what to try
  | { event: "checkpoint"; step: number; kind: "last" | "best" }
  | { event: "unkept"; step: number; text: string } // why the run could not be kept just now
  | { event: "option"; option: BudgetOption } // a budget has measured a size
  | { event: "measuring"; steps: number } // that were read of an engine so far
  | { event: "replaying"; engine: string; steps: number } // what computes, and how far
  | { event: "replayed"; rows: [step: number, here: number, told: number | null][] } // a block of steps, with the capsule's losses
  | { event: "retime"; step: number; steps: number; before: number } // a run within a budget has another length
  | { event: "verdict"; predicted: Expected; reached: number; retimed?: number; off: number }; // how good a prediction was

/** A validation loss to expect; about nineteen of twenty runs end from low to high. */
export interface Expected {
  loss: number;
  low: number;
  high: number;
}

/** A run that would fit a budget: core/budget/facts.py. */
export interface BudgetOption {
  preset: string;
  batch: number;
  dropout: number;
  seconds_per_step: number;
  steps: number;
  tokens: number;
  epochs: number;
  predicted: Expected;
}

export type StopReason = "finished" | "early-stop" | "stopped" | "diverged";

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
  history: [step: number, loss: number][];
  sample: string;
  leftOut: string; // a sentence on what was not understood, or nothing
  kept?: KeptRun;
}

/** A text that is kept in the browser's storage. */
export interface KeptText {
  sha256: string;
  bytes: number;
  name: string;
}

/** A run that the library has, as it stands. */
export interface KeptRun {
  run: string;
  title: string;
  text: KeptText;
  events: CoreEvent[]; // up to there
}

/** A run in the library: core/tab/shelf.py. */
export interface Shelved {
  id: string;
  title: string;
  created: string;
  savedAt: string;
  forked: { run: string; title: string; step: number } | null;
  base: { title: string; sha256: string } | null; // that it trains adapters for
  text: KeptText;
  step: number;
  steps: number;
  loss: number | null;
  best: number | null;
  config: RunConfig;
  parameters: number;
  engine: EngineName;
  history: [step: number, loss: number][];
  validations: [step: number, loss: number][];
  stops: { step: number; loss: number | null }[]; // that can be gone back to, the last one among them
  bytes: number;
  elsewhere: boolean; // open in another tab
}

/** How fast this machine is: core/tab/measure.py. */
export interface Measured {
  fields: [name: string, value: string][]; // of the block to copy
  figures: Record<EngineName, number | null>; // ms per step
}

/** What a capsule says of its run: core/tab/capsules.py. */
export interface CapsuleFacts {
  title: string;
  model: string; // its shape, in words
  config: RunConfig;
  text: KeptText;
  trainBytes: number; // of the text, from its front, that are trained on
  device: string; // what computed it
  version: string;
  steps: number;
  curve: [step: number, loss: number][];
}

/** A state that is kept of a run. */
export interface KeptStep {
  run: string;
  title: string;
  step: number;
}

/** Whether the losses of a replay agree with the capsule's, whether exactly, and a sentence. */
export interface Verdict {
  agree: boolean;
  equal: boolean;
  text: string;
}

export interface Library {
  durable: boolean; // whether it outlives the tab
  runs: Shelved[]; // the newest first
  used: number | null; // bytes of this site's storage, and how many it may have
  available: number | null;
}

/** What a model makes of a text: core/run/looking.py says what the tensors are. The last T bytes are looked into. */
export interface Looked {
  step: number;
  text: Uint8Array<ArrayBuffer>;
  first: number; // of the bytes that are looked into
  losses: Float32Array<ArrayBuffer>; // [length - 1]: of each byte but the first, in nats
  heads: number;
  attention: Float32Array<ArrayBuffer>[]; // of each block [heads, T, T]
  lenses: Float32Array<ArrayBuffer>[]; // [T, 256] logits: before each block, then the model's own
  parts: string[];
  tensors: string[];
  tensor: { name: string; shape: number[]; values: Float32Array<ArrayBuffer> } | null;
}

/** What a text is like. */
export interface Survey {
  surveyed: number; // bytes, from the front
  different: number; // bytes, of 256
  words: number;
  vocabulary: number; // different words
  common: [word: string, count: number][];
  repeats: number; // of all stretches of 24 bytes, the share that stood in the text before
}

/** core/tab/texts.py's `advice`. */
export interface AdviceRequest {
  preset: string;
  recipe: string;
  changes: Changes;
  config?: RunConfig; // of the model to go on with,
  lora?: Changes; // or of adapters for it
  bytes: number;
  start: number[]; // the text's first bytes
}

export interface Advised {
  id: number;
  advice: string[];
}

/** core/tab/asked.py's `teaching`. */
export interface Teaching {
  usual: RunConfig; // settings of such a run
  projections: string[]; // that can be adapted
  trained: number; // numbers, and those that stay
  frozen: number;
  problem: string; // a sentence on what cannot be
}

/** core/tab/texts.py's Visit. What is null is found out. */
export interface VisitRequest {
  dataset: string;
  config: string | null;
  split: string | null;
  column: string | null;
  rowsPerPage?: number;
  look: boolean; // at what there is to choose from, or read
  budget: number; // bytes
}

/** What there is to choose from, and what is likely meant; no column where that is not clear. */
export interface Choices {
  dataset: string;
  config: string;
  split: string;
  column: string | null;
  configs: string[];
  splits: string[]; // of the config
  columns: string[];
  total: number | null; // rows
  preview: string;
}

/** Of a visit: how far it is, what it waits for, or its end. */
export type Visited = { id: number } & (
  | { size: number; rows: number }
  | { wait: number } // seconds
  | { looked: Choices }
  | { text: Uint8Array<ArrayBuffer>; description: string }
  | { error: string }
);

/** What of a text stands in the one that was learnt from: tinygpt/looking/origins.py. */
export interface Origins {
  covered: Int32Array; // of each byte: how long the longest stretch is that it stands in
  byChance: number; // what stands in longer ones is remembered,
  remembered: number; // this share of it
  stretches: { start: number; length: number; place: number; before: string; text: string; behind: string }[]; // the longest
}

/** What a run would take: bytes of memory, seconds in all, milliseconds for a step. */
export interface Estimated {
  id: number;
  bytes: number;
  parameters: number;
  seconds: number;
  ms: number;
}

export type FromWorker =
  | { type: "ready"; capabilities: Capabilities }
  | { type: "doubt"; message: string } // nothing has begun: the memory may not do; ask, and send the same again, sure
  | { type: "progress"; made: number; of: number } // kernels compiled for the GPU
  | {
      type: "started" | "opened";
      run: string;
      config: RunConfig;
      engine: string; // one line: what computes, and how much memory it has
      parameters: number;
      arenaBytes: number;
      trainBytes: number;
      valBytes: number;
      advice: string[]; // core's remarks on corpus, model and steps that do not fit one another
    }
  | { type: "event"; event: CoreEvent }
  | ({ type: "library" } & Library)
  | { type: "unshelved"; message: string } // what was asked of the library cannot be done; nothing has ended
  | { type: "compared"; differences: [label: string, values: (number | string)[]][] }
  | { type: "exported"; name: string; blob: Blob }
  | { type: "travelled"; run: string; step: number; text: string; last: boolean }
  | ({ type: "estimated" } & Estimated)
  | { type: "unestimated"; id: number; message: string }
  | { type: "surveyed"; id: number; survey: Survey; start: number[] }
  | ({ type: "advised" } & Advised)
  | ({ type: "teaching"; id: number } & Teaching)
  | ({ type: "visited" } & Visited)
  | { type: "measuring"; engine: EngineName; round: number; done: number; of: number } // which of the readings comes next
  | ({ type: "measured" } & Measured)
  | { type: "inspected"; facts: CapsuleFacts; kept: boolean; stops: KeptStep[] } // whether its text is kept, and where it can be begun behind
  | ({ type: "judged" } & Verdict)
  | ({ type: "checked" } & CheckedFile)
  | ({ type: "saved" } & SavedFile)
  | { type: "parted"; file: SavedFile }
  | { type: "written"; id: number; bytes: number[]; seconds: number; done: boolean } // a piece, so long after it was asked for
  | { type: "refused"; message: string } // what was asked of the model cannot be done, in one sentence; what runs goes on
  | { type: "weighed"; id: number; likely: [byte: number, probability: number][] } // the likeliest first
  | ({ type: "looked" } & Looked)
  | { type: "unseen"; message: string } // why there is nothing to see
  | ({ type: "traced"; text: Uint8Array<ArrayBuffer> } & Origins)
  | { type: "untraced"; message: string }
  | { type: "stopped"; reason: StopReason; step: number; message?: string } // why it diverged
  /**
   * One sentence for the user; the run, if any, has ended. Where the engine is gone with the model in it, `instead` is
   * the last state of it that was kept, as a .tinygpt file, or null; `lost` says that its GPU is gone.
   */
  | { type: "error"; message: string; instead?: SavedFile | null; lost?: boolean };
