// Where everything lies in the module's memory, which is had once and never grows: the stack that the module was
// linked with, the threads' stacks, the control words, the programs' words, the arena.
import type { Recipe } from "./contract.ts";
import { CONTROL_WORDS } from "./thread.ts";
import { size } from "./units.ts";

const PAGE = 65536;
const STACK = 65536; // bytes a thread: kernels/wasm.py's STACK
const LINE = 64;
const LARGEST_32 = 65536; // pages
const LARGEST_64 = 262144;

export interface MemoryMap {
  stacks: number[]; // where each thread's ends
  control: number;
  program: number;
  starts: Record<string, { at: number; count: number }>; // each program's, in words
  arena: number;
  bytes: number; // of all of it: whole pages
  is64: boolean;
}

export function layOut(recipe: Pick<Recipe, "words" | "arena">, threads: number, has64: boolean): MemoryMap {
  // What the linker used is less than a page behind the module's own stack; there are no static data to speak of.
  let end = STACK + PAGE;
  const stacks = [];
  for (let i = 0; i < threads; i++) stacks.push((end += STACK));
  const control = end;
  const program = control + 4 * CONTROL_WORDS;
  const starts: MemoryMap["starts"] = {};
  let words = 0;
  for (const mode of Object.keys(recipe.words).sort()) {
    starts[mode] = { at: words, count: recipe.words[mode]!.length };
    words += recipe.words[mode]!.length;
  }
  const arena = Math.ceil((program + 4 * words) / LINE) * LINE;
  const pages = Math.ceil((arena + 4 * recipe.arena) / PAGE);
  const is64 = pages > LARGEST_32;
  if (pages > (has64 ? LARGEST_64 : LARGEST_32))
    throw new Error(
      `this run needs ${size(pages * PAGE)} of memory, but WebAssembly ` +
        `${has64 ? "has at most 17.2 GB" : "has at most 4.29 GB here"}; use a smaller preset, batch or context`,
    );
  return { stacks, control, program, starts, arena, bytes: pages * PAGE, is64 };
}

export function allocate(map: MemoryMap, shared: boolean): WebAssembly.Memory {
  const pages = map.bytes / PAGE;
  const descriptor = map.is64
    ? { address: "i64", initial: BigInt(pages), maximum: BigInt(pages), shared }
    : { initial: pages, maximum: pages, shared };
  try {
    return new WebAssembly.Memory(descriptor as unknown as WebAssembly.MemoryDescriptor);
  } catch (error) {
    throw new Error(
      `this run needs ${size(map.bytes)} of memory, which cannot be had here (${String(error)}); ` +
        `close other tabs, or use a smaller preset, batch or context`,
    );
  }
}
