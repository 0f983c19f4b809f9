// The WebAssembly modules of the kernels, by the names that tinygpt/kernels/wasm.py gives them.
import addresses from "../generated/kernels.json";
import { canShareMemory, cores, hasMemory64, runnableBuilds } from "../players/features.ts";
import { ROOT } from "./root.ts";

/** Where a module lies; what it holds is part of its address, so that no cache gives another build's. */
export function kernelAddress(file: string): string {
  return ROOT + ((addresses as Record<string, string>)[file] ?? `kernels/${file}`);
}

/** Those that runs may need in this browser, that of an ordinary run first. `scalar.wasm` draws start values for a GPU. */
export function kernelsHere(): string[] {
  const [best] = runnableBuilds();
  if (!best) return [];
  const kinds = canShareMemory() && cores() > 1 ? ["-threads", ""] : [""];
  const wide = hasMemory64() ? kinds.map((kind) => `${kind}-64`) : [];
  return [...new Set([...[...kinds, ...wide].map((kind) => `${best}${kind}.wasm`), "scalar.wasm"])];
}
