// MicroPython in a worker, with tinygpt/core importable. What the two say to each other: tinygpt/core/tab/protocol.pyi.
import { loadMicroPython } from "@micropython/micropython-webassembly-pyscript/micropython.mjs";
import { type Bridge, type Failed, type Json, MODULES, parse, type Python as Modules } from "../generated/protocol.ts";
import type { Player } from "../players/contract.ts";

const HEAP = 2 ** 20; // bytes to begin with: it grows with the plan
// Bytes of garbage before the heap is swept, at a return to JavaScript. Unless told, MicroPython does so at every 16 KB,
// which is at every block of steps: as long as all else it does for one.
const GARBAGE = 2 ** 20;

export interface Python extends Modules {
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
  python.runPython(`import sys\nsys.path.insert(0, '/')\nfrom tinygpt.core.tab import ${MODULES.join(", ")}`);
  const modules = Object.fromEntries(MODULES.map((name) => [name, python.globals.get(name)]));
  return { ...(modules as unknown as Modules), run: (script) => python.runPython(script) };
}

/** What Python answers; its sentence where that is an error. */
export function answer<T>(text: Json<T>): Exclude<T, Failed> {
  const told = parse(text) as T | Failed;
  if (typeof told === "object" && told !== null && "error" in told) throw new Error((told as Failed).error);
  return told as Exclude<T, Failed>;
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

export function bridge(player: Player, isLost: () => boolean, onFault: (error: unknown) => void): Bridge {
  /** Python sees that a promise failed, but not well why: the cause is kept on this side. */
  const watched = async <T>(work: Promise<T>): Promise<T> => {
    try {
      return await work;
    } catch (error) {
      onFault(error);
      throw error;
    }
  };
  return {
    threads: () => player.threads,
    describe: () => player.describe(),
    write: (at, digits) => watched(player.write(parse(at), bytesOf(digits))),
    put: (at, data) => watched(player.write(parse(at), data)),
    /** What was asked for before is done first, what is asked for later is not waited for. It may never be awaited. */
    read: (at) => {
      const read = watched(player.read(parse(at)).then(digitsOf));
      read.catch(() => undefined);
      return read;
    },
    take: async (at) => {
      try {
        return await player.read(parse(at));
      } catch (error) {
        if (isLost()) return watched(Promise.reject(error));
        console.warn(`the model could not be kept: ${lastLine(error)}`);
        return null;
      }
    },
    run: (mode, times) => watched(player.run(mode, times)),
    close: () => player.close(),
  };
}
