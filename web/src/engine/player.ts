// Replays programs' words on one memory, on this thread or on a team of threads. All decisions were made in Python.
import type { Recipe } from "./contract.ts";
import { canShareMemory, cores, hasMemory64, MAX_THREADS, runnableBuilds } from "./features.ts";
import { allocate, layOut, type MemoryMap } from "./memory.ts";
import { BUILD_NAMES, type WasmBuild } from "./protocol.ts";
import { size } from "./units.ts";
import { type FromThread, makeThread, type Start, type Thread, TURN, WORD_COUNT, WORDS_AT } from "./thread.ts";

/** Gives the bytes of a module by its file name: fetched in the tab, read in Node. */
export type KernelSource = (file: string) => Promise<ArrayBuffer | Uint8Array<ArrayBuffer>>;

export interface PlayerOptions {
  kernels: KernelSource;
  threads?: number; // 0 or absent: the cores
  build?: WasmBuild; // absent: the best one that runs
  force64?: boolean; // 64-bit memory even where 32 bits would do
}

export interface Player {
  readonly threads: number;
  readonly memory: WebAssembly.Memory;
  readonly arena: number; // where it begins, in bytes
  readonly description: string;
  run(mode: string): Promise<void>;
  /** Start values of a parameter: kernels/init.cpp. */
  draw(place: number, size: number, seed: number, purpose: number, index: number, std: number): void;
  close(): void;
}

export async function makePlayer(recipe: Recipe, options: PlayerOptions): Promise<Player> {
  const build = chosenBuild(options.build);
  const threads = chosenThreads(options.threads);
  const shared = threads > 1;
  const map = layOut(recipe, threads, hasMemory64());
  map.is64 ||= options.force64 ?? false;
  const file = `${build}${shared ? "-threads" : ""}${map.is64 ? "-64" : ""}.wasm`;
  const module = await compile(file, options.kernels);
  const memory = allocate(map, shared);
  const program = new Int32Array(memory.buffer, map.program);
  for (const mode of Object.keys(map.starts)) program.set(recipe.words[mode]!, map.starts[mode]!.at);
  const bits = map.is64 ? ", 64-bit memory" : "";
  const description =
    `WebAssembly, ${BUILD_NAMES[build]}, ${threads} thread${threads > 1 ? "s" : ""}${bits}, ${size(4 * recipe.arena)}` +
    (options.threads !== 1 && !canShareMemory() ? " (not cross-origin isolated: threads are not to be had)" : "");
  const own = new Instance(module, memory, map);
  const base = { threads, memory, arena: map.arena, description, draw: own.draw.bind(own) };
  if (!shared) {
    return { ...base, run: (mode) => own.run(mode), close: () => undefined };
  }
  const team = await Team.start(module, memory, map);
  return { ...base, run: (mode) => team.run(mode), close: () => team.close() };
}

/** Start values for an engine that computes elsewhere: of one tensor at a time, of at most so many floats. */
export async function makeDraw(
  largest: number,
  kernels: KernelSource,
): Promise<(size: number, seed: number, purpose: number, index: number, std: number) => Float32Array<ArrayBuffer>> {
  const map = layOut({ words: {}, arena: largest }, 1, false);
  const memory = allocate(map, false);
  const own = new Instance(await compile("scalar.wasm", kernels), memory, map);
  return (size, ...stream) => {
    own.draw(0, size, ...stream);
    return new Float32Array(memory.buffer as ArrayBuffer, map.arena, size);
  };
}

function chosenBuild(asked: WasmBuild | undefined): WasmBuild {
  const builds = runnableBuilds();
  if (builds.length === 0) throw new Error("there is no WebAssembly here");
  if (asked && !builds.includes(asked))
    throw new Error(`the ${asked} build does not run here; ${builds.join(", ")} would`);
  return asked ?? builds[0]!;
}

function chosenThreads(asked: number | undefined): number {
  if (asked !== undefined && !(Number.isInteger(asked) && asked >= 0 && asked <= MAX_THREADS))
    throw new Error(`the number of threads must be from 1 to ${MAX_THREADS}, not ${asked}`);
  return canShareMemory() ? asked || cores() : 1;
}

async function compile(file: string, kernels: KernelSource): Promise<WebAssembly.Module> {
  const bytes = await kernels(file);
  try {
    return await WebAssembly.compile(bytes);
  } catch (error) {
    throw new Error(`the kernels ${file} do not compile here: ${String(error)}`);
  }
}

/** The module on the calling thread: the whole player where there is one thread. */
class Instance {
  private readonly map: MemoryMap;
  private readonly exports: WebAssembly.Exports;

  constructor(module: WebAssembly.Module, memory: WebAssembly.Memory, map: MemoryMap) {
    this.map = map;
    this.exports = new WebAssembly.Instance(module, { env: { memory } }).exports;
    const heap = Number((this.exports.__heap_base as WebAssembly.Global).value);
    if (heap > map.stacks[0]! - 65536) throw new Error("the kernels' own data take more room than was left for them");
  }

  private pointer(address: number): number | bigint {
    return this.map.is64 ? BigInt(address) : address;
  }

  async run(mode: string): Promise<void> {
    const { at, count } = this.map.starts[mode]!;
    const { arena, program, control } = this.map;
    const run = this.exports.tg_run as (...values: (number | bigint)[]) => void;
    run(this.pointer(arena), this.pointer(program + 4 * at), BigInt(count), this.pointer(control), 0, 1);
    await breathe();
  }

  draw(place: number, size: number, seed: number, purpose: number, index: number, std: number): void {
    const init = this.exports.tg_init as (...values: (number | bigint)[]) => void;
    init(this.pointer(this.map.arena + 4 * place), BigInt(size), seed, purpose, index, std);
  }
}

/** Lets messages in: a resolved promise alone would not. */
function breathe(): Promise<void> {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(null);
  });
}

/** Threads that share the memory. The thread that made them only waits, so it hears of everything at once. */
class Team {
  private threads: Thread[] = [];
  private waiting: { resolve: () => void; reject: (error: Error) => void } | null = null;
  private fault: Error | null = null;
  private readonly map: MemoryMap;
  private readonly control: Int32Array;

  private constructor(memory: WebAssembly.Memory, map: MemoryMap) {
    this.map = map;
    this.control = new Int32Array(memory.buffer, map.control, 16);
  }

  static async start(module: WebAssembly.Module, memory: WebAssembly.Memory, map: MemoryMap): Promise<Team> {
    const team = new Team(memory, map);
    const { is64, control, program, arena, stacks } = map;
    const count = stacks.length;
    let ready = 0;
    const all = team.answer();
    for (let thread = 0; thread < count; thread++) {
      const made = await makeThread();
      team.threads.push(made);
      made.onDeath((cause) => team.fail(`thread ${thread} of ${count} has died: ${cause}`));
      made.onMessage((message: FromThread) => {
        if (message.type === "failed") team.fail(`thread ${thread} of ${count} has failed: ${message.message}`);
        else if (message.type === "done" || ++ready === count) team.succeed();
      });
      const start: Start = { module, memory, is64, stack: stacks[thread]!, control, program, arena, thread, threads: count };
      made.start(start);
    }
    await all;
    return team;
  }

  async run(mode: string): Promise<void> {
    if (this.fault) throw this.fault;
    if (this.waiting) throw new Error("a run is under way already");
    const { at, count } = this.map.starts[mode]!;
    this.control[WORDS_AT] = at;
    this.control[WORD_COUNT] = count;
    const over = this.answer();
    Atomics.add(this.control, TURN, 1);
    Atomics.notify(this.control, TURN);
    await over;
  }

  private answer(): Promise<void> {
    return new Promise((resolve, reject) => (this.waiting = { resolve, reject }));
  }

  private succeed(): void {
    this.waiting?.resolve();
    this.waiting = null;
  }

  /** The others may wait at a barrier for ever: end them all. */
  private fail(message: string): void {
    if (this.fault) return;
    this.fault = new Error(message);
    this.end();
    this.waiting?.reject(this.fault);
    this.waiting = null;
  }

  private end(): void {
    for (const thread of this.threads) thread.end();
  }

  close(): void {
    this.fail("the engine is closed");
  }
}
