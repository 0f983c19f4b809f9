// Where everything lies in the module's memory, which is had once and never grows: the stack that the module was
// linked with, the threads' stacks, the control words, the programs' words, the arena.
import { LARGEST_MEMORY_32, LARGEST_MEMORY_64, WASM_PAGE as PAGE, WASM_STACK as STACK } from "../generated/constants.ts";
import type { Playbook } from "../generated/protocol.ts";
import { size } from "./units.ts";
import { CONTROL } from "./thread.ts";

const LINE = 64;
const LARGEST_32 = LARGEST_MEMORY_32 / PAGE; // pages
const LARGEST_64 = LARGEST_MEMORY_64 / PAGE;

export interface MemoryMap {
  stacks: number[]; // where each thread's ends
  control: number;
  program: number;
  programs: Record<string, { at: number; count: number; commit: number }>; // in words
  arena: number;
  bytes: number; // of all of it: whole pages
  is64: boolean;
}

export function layOut(playbook: Playbook, threads: number, has64: boolean): MemoryMap {
  // What the linker used is less than a page behind the module's own stack; there are no static data to speak of.
  let end = STACK + PAGE;
  const stacks = [];
  for (let i = 0; i < threads; i++) stacks.push((end += STACK));
  const control = end;
  const program = control + 4 * CONTROL.WORDS;
  const programs: MemoryMap["programs"] = {};
  let total = 0;
  for (const [mode, { words, commit }] of Object.entries(playbook.programs)) {
    programs[mode] = { at: total, count: words.length, commit };
    total += words.length;
  }
  const arena = Math.ceil((program + 4 * total) / LINE) * LINE;
  const pages = Math.ceil((arena + playbook.buffers[0]!) / PAGE);
  const is64 = pages > LARGEST_32;
  if (pages > (has64 ? LARGEST_64 : LARGEST_32))
    throw new Error(
      `this run needs ${size(pages * PAGE)} of memory, but WebAssembly ` +
        `${has64 ? "has at most 17.2 GB" : "has at most 4.29 GB here"}; use a smaller preset, batch or context`,
    );
  return { stacks, control, program, programs, arena, bytes: pages * PAGE, is64 };
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
