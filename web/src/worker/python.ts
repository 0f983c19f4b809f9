// MicroPython in a worker, with tinygpt/core importable. What the two say to each other: tinygpt/core/tab/protocol.pyi.
import { loadMicroPython } from "@micropython/micropython-webassembly-pyscript/micropython.mjs";
import { type Bridge, MODULES, parse, type Python as Modules } from "../generated/protocol.ts";
import type { Player } from "../players/contract.ts";
import { lastLine } from "./answers.ts";

const HEAP = 2 ** 20; // bytes to begin with: it grows with the plan
// Bytes of garbage before the heap is swept, at a return to JavaScript. Unless told, MicroPython does so at every 16 KB,
// which is at every block of steps: as long as all else it does for one.
const GARBAGE = 2 ** 20;

export interface Python extends Modules {
  /** Runs a script; for tests. */
  run(script: string): void;
}

type Interpreter = Awaited<ReturnType<typeof loadMicroPython>>;

/** `files`: the package's own, by their path below tinygpt/. `url`: micropython.wasm, where it is not beside its .mjs. */
export async function startInterpreter(files: Record<string, string>, url?: string): Promise<Interpreter> {
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
  python.runPython("import sys\nsys.path.insert(0, '/')");
  return python;
}

export async function startPython(files: Record<string, string>, url?: string): Promise<Python> {
  const python = await startInterpreter(files, url);
  python.runPython(`from tinygpt.core.tab import ${MODULES.join(", ")}`);
  const modules = Object.fromEntries(MODULES.map((name) => [name, python.globals.get(name)]));
  return { ...(modules as unknown as Modules), run: (script) => python.runPython(script) };
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
