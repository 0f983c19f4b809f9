// MicroPython in a worker, with tinygpt/core importable: the other side of tinygpt/core/tab.
import { loadMicroPython } from "@micropython/micropython-webassembly-pyscript/micropython.mjs";
import type { Place, Player } from "./contract.ts";
import type { DeviceFacts } from "./gpu.ts";
import type { Origin, Reader } from "./modelfile.ts";
import type { BudgetOption, RunConfig, ToWorker } from "./protocol.ts";
import type { Decisions } from "../storage/shelf.ts";

const HEAP = 2 ** 20; // bytes to begin with: it grows with the plan
// Bytes of garbage before the heap is swept, at a return to JavaScript. Unless told, MicroPython does so at every 16 KB,
// which is at every block of steps: as long as all else it does for one.
const GARBAGE = 2 ** 20;

export interface Request {
  preset: string;
  recipe: string;
  changes: Record<string, number | string>;
  bytes: number | null; // of the text; null: the model only writes
  prompt?: string;
  from?: Origin; // what to go on from
  base?: { config: RunConfig; sha256: string }; // that adapters stand on
  lora?: Record<string, number | string>; // of new adapters
  title?: string; // what they are called
  device?: DeviceFacts; // of the GPU to plan for; absent: plan for WebAssembly
  memory?: { reported: number | null }; // bytes; absent: the GPU has its own
  budget?: Record<string, unknown>; // of a run that a Budget has chosen: it ends on time
  kept?: { records: (string | null)[]; snapshots: (string | null)[]; durable: boolean }; // what the run's folder holds
}

/** What tab/estimate.py is asked for: a new run, or one of the model in hand. */
type EstimateRequest = Pick<Request, "bytes" | "device"> &
  Pick<Extract<ToWorker, { type: "estimate" }>, "preset" | "recipe" | "inHand" | "lora" | "changes">;

/** What tab/budget.py is asked for. */
export interface BudgetRequest extends Pick<Request, "device"> {
  seconds: number;
  bytes: number; // of the text
  presets?: string[]; // to choose from; absent: all of which it is known what to expect
  changes?: Request["changes"]; // settings that stay as they are
}

export type BudgetAnswer =
  | { chosen: BudgetOption; request: Pick<Request, "preset" | "recipe" | "changes" | "budget"> }
  | { error: string }
  | { stopped: true };

/** A Budget of tab/budget.py; every text is JSON. */
export interface Budget {
  train_bytes: number;
  wanted(): string; // [start, size][][]: of the training part and of the held-out part
  /** `pieces`: those bytes, as numbers. The answer is a BudgetAnswer; each size that was measured comes as an event before. */
  choose(page: Pick<Page, "now" | "emit" | "stopping" | "open" | "startValues" | "zeros">, train: Uint8Array, val: Uint8Array, pieces: string): Promise<string>;
}

export interface Plan {
  doubt: string; // on whether the memory does, or nothing
  bytes: number; // of memory
  config: RunConfig;
  parameters: number;
  compact: boolean; // whether it takes weights as their file has them
  trainBytes: number;
  valBytes: number;
  advice: string[];
}

/** What Python may ask of its surroundings while it trains. */
export interface Page {
  now(): number; // seconds
  emit(event: string): void;
  stopping(): boolean;
  waiting(): boolean; // whether there are requests
  requests(): string; // and forget them
  /** Makes the player of a playbook. */
  open(playbook: string): Promise<Bridge>;
  /** What a program that draws start values leaves at these places, for players that cannot. */
  startValues(playbook: string, places: string): Promise<Uint8Array<ArrayBuffer>>;
  zeros(size: number): Uint8Array<ArrayBuffer>;
  /** A file with this header, of the floats that lie at these places. */
  save(header: string, places: string): Promise<void>;
  /** Keeps a state that has proved sound, as a KeepOrder says: null, or the name of an error and its message. */
  keep(order: string, state: Uint8Array<ArrayBuffer>): Promise<string>;
  /** The state that was kept at that step. */
  kept(step: number): Promise<Uint8Array<ArrayBuffer> | null>;
  /** The weights that lie at these places are wanted outside. */
  lend(places: string): Promise<void>;
  /** A piece of a text; whether more of it is wanted. */
  written(piece: string): boolean;
  weighed(answer: string): void;
  refused(message: string): void;
}

/** What tab/inside.py says of a model that is looked into. */
export interface InsideFacts {
  window: number; // bytes that are looked into at once, at most
  longest: number; // bytes of a text
  parts: string[]; // that can be scaled
  tensors: [name: string, mode: string][]; // with the program that has them
  attention: string[]; // of these tensors, the softmax of each block,
  lenses: string[]; // and the logits behind each
}

/** A program of tab/inside.py on windows of one length. */
export interface Inside {
  open(page: Pick<Page, "open">, weights: Uint8Array): Promise<string>;
  run(window: string, weights: Uint8Array | null): Promise<void>;
}

export interface InsideModule {
  facts(config: string): string;
  moves(config: string, length: number, scales: string): string;
  learnt(bytes: number, valFraction: number): number; // of a corpus, from the front
  Inside(request: string): Inside;
}

/** A Session of tab/session.py; every text is JSON. */
export interface Session {
  plan(): string;
  open(page: Page, train: Uint8Array, val: Uint8Array, state: Uint8Array | null, base: Uint8Array | null): Promise<void>;
  train(): Promise<string>;
  keep_end(): Promise<void>; // the state that a run has ended with
  attend(): Promise<void>;
  stands(): string; // a Request's `from`
  state_places(): Promise<string>; // Place[]: the state of a model file, behind its step
  header_text(): string;
}

/** core/tab/capsules.py: each text is JSON. */
export interface Capsules {
  made(request: string): string;
  Replay(request: string): Replay;
}

/** core/tab/measure.py: each text is JSON. */
export interface Measure {
  plan(request: string): string;
  Reading(request: string): { read(page: TrialPage, text: Uint8Array): Promise<string> };
  report(request: string): string;
}

export interface Replay {
  facts(): string; // CapsuleFacts
  stops(runs: string): string; // KeptStep[]
  check_text(sha256: string, size: number): void;
  /** `text`: what of it is trained on; `state`: what it begins with. The answer is a Verdict, or an error. */
  run(page: TrialPage, text: Uint8Array, state: Uint8Array | null): Promise<string>;
}

/** What Python may ask of its surroundings while it tries something. */
export interface TrialPage extends Pick<Page, "now" | "emit" | "stopping" | "open" | "startValues" | "zeros"> {
  /** The sha256 of what lies at these places. */
  digest(places: string): Promise<string>;
}

interface Tab {
  Session(request: string): Session;
}

/** tab/texts.py; every text is JSON. */
interface Texts {
  Visit(request: string): { step(reply: string, body: string): string };
  advice(request: string): string;
}

/** An Estimate of tab/estimate.py; every text is JSON. */
interface Estimate {
  plan(): string; // Plan
  measure(page: TrialPage, train: Uint8Array, val: Uint8Array): Promise<string>;
}

/** tab/asked.py; every text is JSON. */
interface Asking {
  teaching(request: string): string;
}

interface BudgetModule {
  Budget(request: string): Budget;
}

interface EstimateModule {
  Estimate(request: string): Estimate;
}

export interface Python {
  session(request: Request): Session;
  budget(request: BudgetRequest): Budget;
  estimate(request: EstimateRequest): Estimate;
  reader: Reader; // of .tinygpt files
  capsules: Capsules;
  measure: Measure;
  shelf: Decisions; // what is kept of runs
  inside: InsideModule;
  texts: Texts;
  asked: Asking;
  /** Runs a script; for tests. */
  run(script: string): void;
}

/** `files`: the package's own, by their path below tinygpt/. `url`: micropython.wasm, where it is not beside its .mjs. */
export async function startPython(files: Record<string, string>, url?: string): Promise<Python> {
  const python = await loadMicroPython({ heapsize: HEAP, ...(url ? { url } : {}) });
  python.FS.mkdir("/tinygpt");
  const folders = new Set<string>();
  for (const [path, text] of Object.entries(files)) {
    const parts = path.split("/").slice(0, -1);
    for (let depth = 1; depth <= parts.length; depth++) {
      const folder = parts.slice(0, depth).join("/");
      if (!folders.has(folder)) python.FS.mkdir(`/tinygpt/${folder}`);
      folders.add(folder);
    }
    python.FS.writeFile(`/tinygpt/${path}`, text);
  }
  python.runPython(`import gc\ngc.threshold(${GARBAGE})`);
  python.runPython("import sys\nsys.path.insert(0, '/')\nfrom tinygpt.core.tab import asked, budget, capsules, estimate, file, inside, measure, session, shelf, texts");
  const tab = python.globals.get("session") as Tab;
  return {
    session: (request) => sentence(() => tab.Session(JSON.stringify(request))),
    budget: (request) => sentence(() => (python.globals.get("budget") as BudgetModule).Budget(JSON.stringify(request))),
    estimate: (request) => sentence(() => (python.globals.get("estimate") as EstimateModule).Estimate(JSON.stringify(request))),
    reader: python.globals.get("file") as Reader,
    measure: python.globals.get("measure") as Measure,
    capsules: python.globals.get("capsules") as Capsules,
    shelf: python.globals.get("shelf") as Decisions,
    inside: python.globals.get("inside") as InsideModule,
    texts: python.globals.get("texts") as Texts,
    asked: python.globals.get("asked") as Asking,
    run: (script) => python.runPython(script),
  };
}

/** An error of Python's as its last line says it, without the traceback. */
export function sentence<T>(call: () => T): T {
  try {
    return call();
  } catch (error) {
    throw new Error(lastLine(error));
  }
}

export function lastLine(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  const last = text.trim().split("\n").at(-1) ?? text;
  return last.replace(/^(\w*Error|\w*Exception|JsException): /, "");
}

const DIGITS = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));

function digitsOf(bytes: Uint8Array): string {
  let digits = "";
  for (const byte of bytes) digits += DIGITS[byte];
  return digits;
}

function bytesOf(digits: string): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(digits.length / 2);
  for (let i = 0; i < bytes.length; i++) bytes[i] = parseInt(digits.substring(2 * i, 2 * i + 2), 16);
  return bytes;
}

/** The player as tab/engine.py's TabPlayer calls it: places are JSON, small memory is hexadecimal digits. */
export type Bridge = ReturnType<typeof bridge>;

export function bridge(player: Player, isLost: () => boolean, onFault: (error: unknown) => void) {
  /** Python sees that a promise failed, but not well why: the cause is kept on this side. */
  const watched = async <T>(work: Promise<T>): Promise<T> => {
    try {
      return await work;
    } catch (error) {
      onFault(error);
      throw error;
    }
  };
  const places = (text: string): Place[] => JSON.parse(text) as Place[];
  return {
    threads: () => player.threads,
    describe: () => player.describe(),
    write: (at: string, digits: string) => watched(player.write(places(at), bytesOf(digits))),
    put: (at: string, data: Uint8Array<ArrayBuffer>) => watched(player.write(places(at), data)),
    /** What was asked for before is done first, what is asked for later is not waited for. It may never be awaited. */
    read: (at: string) => {
      const read = watched(player.read(places(at)).then(digitsOf));
      read.catch(() => undefined);
      return read;
    },
    /** A copy that stays on this side; null where there is no memory for it. */
    take: async (at: string): Promise<Uint8Array<ArrayBuffer> | null> => {
      try {
        return await player.read(places(at));
      } catch (error) {
        if (isLost()) return watched(Promise.reject(error));
        console.warn(`the model could not be kept: ${lastLine(error)}`);
        return null;
      }
    },
    run: (mode: string, times: number) => watched(player.run(mode, times)),
    close: () => player.close(),
  };
}
