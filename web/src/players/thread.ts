// A thread of the player: a Web Worker in the tab, a worker_threads Worker in Node.
//
// It waits at a word in shared memory until the player asks for a run, calls tg_run as its number of the team, and
// waits again. Thread 0 says when a run is over: it is over for all, for they have met at the last barrier.

import { DONE_WORD, STOP_WORD, TEAM_WORDS } from "../generated/constants.ts";

const TEAM = 16; // where the kernels' own words begin: kernels/tg.h

/** Words at Start.control, in shared memory. */
export const CONTROL = {
  TURN: 0, // counts the runs asked for
  WORDS_AT: 1, // the program: where its words begin, in words from Start.program, and how many there are
  WORD_COUNT: 2,
  COMMIT: 3, // the word from which on it cannot be abandoned
  TIMES: 4, // how often it is to run
  BARRIER: TEAM,
  STOP: TEAM + STOP_WORD,
  DONE: TEAM + DONE_WORD,
  WORDS: TEAM + TEAM_WORDS,
};

/** What a thread is told. Addresses are in bytes. */
export interface Start {
  module: WebAssembly.Module;
  memory: WebAssembly.Memory;
  is64: boolean;
  stack: number; // where the thread's stack ends: it grows downwards
  control: number;
  words: typeof CONTROL; // what is where at `control`
  program: number;
  arena: number;
  thread: number;
  threads: number;
}

export type FromThread = { type: "ready" } | { type: "done" } | { type: "failed"; message: string };

/** Lives in its own realm: the text of this function is all that a thread has, so it refers to nothing outside. */
export function threadMain(post: (message: FromThread) => void): (start: Start) => void {
  return (start) => {
    try {
      const { exports } = new WebAssembly.Instance(start.module, { env: { memory: start.memory } });
      const pointer = (address: number): number | bigint => (start.is64 ? BigInt(address) : address);
      (exports.__stack_pointer as WebAssembly.Global).value = pointer(start.stack);
      const { words } = start;
      const run = exports.tg_run as (...values: (number | bigint)[]) => void;
      const control = new Int32Array(start.memory.buffer, start.control, words.WORDS);
      let turn = 0;
      post({ type: "ready" });
      for (;;) {
        Atomics.wait(control, words.TURN, turn);
        turn++;
        run(
          pointer(start.arena),
          pointer(start.program + 4 * control[words.WORDS_AT]!),
          BigInt(control[words.WORD_COUNT]!),
          BigInt(control[words.COMMIT]!),
          control[words.TIMES]!,
          pointer(start.control + 4 * words.BARRIER),
          start.thread,
          start.threads,
        );
        if (start.thread === 0) post({ type: "done" });
      }
    } catch (error) {
      post({ type: "failed", message: String(error) });
    }
  };
}

export interface Thread {
  onMessage(listener: (message: FromThread) => void): void;
  /** The thread has died of something it could not report. */
  onDeath(listener: (cause: string) => void): void;
  start(start: Start): void;
  end(): void;
}

const isNode = typeof process !== "undefined" && Boolean(process.versions?.node);

let lent: (() => Thread) | null = null; // by the page, where this worker must not make any

export function borrowThreads(lend: () => Thread): void {
  lent = lend;
}

export async function makeThread(): Promise<Thread> {
  return isNode ? nodeThread() : (lent ?? webThread)();
}

function webThread(): Thread {
  const source = `const start = (${threadMain})((m) => postMessage(m)); onmessage = ({ data }) => start(data);`;
  const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
  const worker = new Worker(url);
  return {
    onMessage: (listener) => worker.addEventListener("message", ({ data }) => listener(data as FromThread)),
    onDeath: (listener) => worker.addEventListener("error", (event) => listener(event.message || "unknown cause")),
    start: (start) => worker.postMessage(start),
    end: () => {
      worker.terminate();
      URL.revokeObjectURL(url);
    },
  };
}

async function nodeThread(): Promise<Thread> {
  const threads = await import("node:worker_threads");
  const source = `const { parentPort } = require("node:worker_threads");
    parentPort.once("message", (${threadMain})((m) => parentPort.postMessage(m)));`;
  const worker = new threads.Worker(source, { eval: true });
  return {
    onMessage: (listener) => worker.on("message", listener),
    onDeath: (listener) => {
      worker.on("error", (error) => listener(String(error)));
      worker.on("exit", (code) => listener(`it ended with status ${code}`));
    },
    start: (start) => worker.postMessage(start),
    end: () => void worker.terminate(),
  };
}
