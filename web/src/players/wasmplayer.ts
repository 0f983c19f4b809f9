// Replays programs' words on one memory, on this thread or on a team of threads. All decisions were made in Python.
import { MAX_THREADS, WASM_STACK } from "../generated/constants.ts";
import type { Place, Playbook } from "../generated/protocol.ts";
import { type Player, totalSize } from "./contract.ts";
import { canShareMemory, cores, hasMemory64, runnableBuilds, whyAlone } from "./features.ts";
import { allocate, layOut, type MemoryMap } from "./memory.ts";
import { BUILD_NAMES, type WasmBuild } from "../worker/protocol.ts";
import { CONTROL, type FromThread, makeThread, type Start, type Thread } from "./thread.ts";
import { size } from "./units.ts";

/** Gives the bytes of a module by its file name: fetched in the tab, read in Node. */
export type KernelSource = (file: string) => Promise<ArrayBuffer | Uint8Array<ArrayBuffer>>;

export interface WasmOptions {
  kernels: KernelSource;
  threads?: number; // 0 or absent: the cores
  build?: WasmBuild; // absent: the best one that runs
  force64?: boolean; // 64-bit memory even where 32 bits would do
}

const BREATH = 25; // ms that the calling thread may compute before it lets messages in

/** Whoever runs the words: this thread or a team. */
interface Replayer {
  run(at: number, count: number, commit: number, times: number): Promise<number>;
  close(): void;
}

export class WasmPlayer implements Player {
  readonly threads: number;
  readonly bytes: number;
  private readonly memory: WebAssembly.Memory;
  private readonly map: MemoryMap;
  private readonly words: Int32Array;
  private readonly control: Int32Array;
  private readonly replayer: Replayer;
  private readonly description: string;

  private constructor(memory: WebAssembly.Memory, map: MemoryMap, bytes: number, replayer: Replayer, description: string) {
    this.memory = memory;
    this.map = map;
    this.replayer = replayer;
    this.description = description;
    this.threads = map.stacks.length;
    this.bytes = bytes;
    this.words = new Int32Array(memory.buffer, map.program);
    this.control = new Int32Array(memory.buffer, map.control, CONTROL.WORDS);
  }

  static async create(playbook: Playbook, options: WasmOptions): Promise<WasmPlayer> {
    const build = chosenBuild(options.build);
    const threads = chosenThreads(options.threads);
    const shared = threads > 1;
    const map = layOut(playbook, threads, hasMemory64());
    map.is64 ||= options.force64 ?? false;
    const file = `${build}${shared ? "-threads" : ""}${map.is64 ? "-64" : ""}.wasm`;
    const module = await compile(file, options.kernels);
    const memory = allocate(map, shared);
    const program = new Int32Array(memory.buffer, map.program);
    for (const [mode, { words }] of Object.entries(playbook.programs)) program.set(words, map.programs[mode]!.at);
    const bits = map.is64 ? ", 64-bit memory" : "";
    const description =
      `WebAssembly, ${BUILD_NAMES[build]}, ${threads} thread${threads > 1 ? "s" : ""}${bits}, ${size(playbook.buffers[0]!)}` +
      (options.threads !== 1 && !canShareMemory() ? ` (${whyAlone()})` : "");
    const replayer = shared ? await Team.start(module, memory, map) : new Instance(module, memory, map);
    return new WasmPlayer(memory, map, playbook.buffers[0]!, replayer, description);
  }

  describe(): string {
    return this.description;
  }

  private at(offset: number, size: number): Uint8Array {
    return new Uint8Array(this.memory.buffer, this.map.arena + offset, size);
  }

  async write(places: Place[], data: Uint8Array<ArrayBuffer>): Promise<void> {
    let from = 0;
    for (const [, offset, size] of places) {
      const part = data.subarray(from, from + size);
      this.at(offset, part.length).set(part);
      from += size;
    }
  }

  async read(places: Place[]): Promise<Uint8Array<ArrayBuffer>> {
    const data = new Uint8Array(totalSize(places));
    let to = 0;
    for (const [, offset, size] of places) {
      data.set(this.at(offset, size), to);
      to += size;
    }
    return data;
  }

  run(mode: string, times: number): Promise<number> {
    const program = this.map.programs[mode];
    if (!program) throw new Error(`there is no program '${mode}'`);
    return this.replay(program.at, program.count, program.commit, times);
  }

  private replay(at: number, count: number, commit: number, times: number): Promise<number> {
    this.control.fill(0, CONTROL.STOP, CONTROL.DONE + 1);
    return this.replayer.run(at, count, commit, times);
  }

  stop(): void {
    Atomics.store(this.control, CONTROL.STOP, 1);
  }

  async clock(mode: string): Promise<Float64Array<ArrayBuffer>> {
    const { at, count } = this.map.programs[mode]!;
    const seconds: number[] = [];
    for (let op = at; op < at + count;) {
      const length = this.words[op + 1]!;
      const began = performance.now();
      await this.replay(op, length, length, 1);
      seconds.push((performance.now() - began) / 1000);
      op += length;
    }
    return new Float64Array(seconds);
  }

  close(): void {
    this.replayer.close();
  }
}

function chosenBuild(asked: WasmBuild | undefined): WasmBuild {
  const builds = runnableBuilds();
  if (builds.length === 0) throw new Error("there is no WebAssembly here");
  if (asked && !builds.includes(asked)) throw new Error(`the ${asked} build does not run here; ${builds.join(", ")} would`);
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

/** The module on the calling thread: the whole team where there is one thread. It hears nothing while an op runs. */
class Instance implements Replayer {
  private readonly map: MemoryMap;
  private readonly exports: WebAssembly.Exports;
  private readonly words: Int32Array;
  private readonly control: Int32Array;

  constructor(module: WebAssembly.Module, memory: WebAssembly.Memory, map: MemoryMap) {
    this.map = map;
    this.exports = new WebAssembly.Instance(module, { env: { memory } }).exports;
    this.words = new Int32Array(memory.buffer, map.program);
    this.control = new Int32Array(memory.buffer, map.control, CONTROL.WORDS);
    const heap = Number((this.exports.__heap_base as WebAssembly.Global).value);
    if (heap > map.stacks[0]! - WASM_STACK) throw new Error("the kernels' own data take more room than was left for them");
  }

  /** As run.cpp's tg_run does, op by op: between two of them a stop can be heard. */
  async run(at: number, count: number, commit: number, times: number): Promise<number> {
    let breath = performance.now();
    for (let turn = 0; turn < times; turn++)
      for (let op = at; op < at + count; op += this.words[op + 1]!) {
        if (performance.now() - breath > BREATH) {
          await breathe();
          breath = performance.now();
        }
        if (op <= at + commit && this.control[CONTROL.STOP]) return turn;
        this.runOp(op);
      }
    await breathe();
    return times;
  }

  private runOp(at: number): void {
    const { arena, program, control, is64 } = this.map;
    const pointer = (address: number): number | bigint => (is64 ? BigInt(address) : address);
    const run = this.exports.tg_run as (...values: (number | bigint)[]) => void;
    const shared = pointer(control + 4 * CONTROL.BARRIER);
    run(pointer(arena), pointer(program + 4 * at), BigInt(this.words[at + 1]!), 0n, 1, shared, 0, 1);
  }

  close(): void {}
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
class Team implements Replayer {
  private threads: Thread[] = [];
  private waiting: { resolve: () => void; reject: (error: Error) => void } | null = null;
  private fault: Error | null = null;
  private readonly control: Int32Array;

  private constructor(memory: WebAssembly.Memory, map: MemoryMap) {
    this.control = new Int32Array(memory.buffer, map.control, CONTROL.WORDS);
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
      const start: Start = {
        module,
        memory,
        is64,
        stack: stacks[thread]!,
        control,
        words: CONTROL,
        program,
        arena,
        thread,
        threads: count,
      };
      made.start(start);
    }
    await all;
    return team;
  }

  async run(at: number, count: number, commit: number, times: number): Promise<number> {
    if (this.fault) throw this.fault;
    if (this.waiting) throw new Error("a run is under way already");
    this.control[CONTROL.WORDS_AT] = at;
    this.control[CONTROL.WORD_COUNT] = count;
    this.control[CONTROL.COMMIT] = commit;
    this.control[CONTROL.TIMES] = times;
    const over = this.answer();
    Atomics.add(this.control, CONTROL.TURN, 1);
    Atomics.notify(this.control, CONTROL.TURN);
    await over;
    return this.control[CONTROL.DONE]!;
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
