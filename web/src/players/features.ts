// What this browser or Node can run.
import { MAX_THREADS } from "../generated/constants.ts";
import { findWebGpu } from "./gpu.ts";
import type { Capabilities, WasmBuild } from "../worker/protocol.ts";

// The smallest modules that use a feature: () -> v128, with i8x16.splat and with i32x4.relaxed_trunc_f32x4_s.
const SIMD = [0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 8, 1, 6, 0, 65, 0, 253, 15, 11];
const RELAXED = [0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 11, 1, 9, 0, 65, 0, 253, 15, 253, 129, 2, 11];

function compiles(bytes: number[]): boolean {
  return typeof WebAssembly !== "undefined" && WebAssembly.validate(new Uint8Array(bytes));
}

/** Builds that run here, the best first. */
export function runnableBuilds(): WasmBuild[] {
  if (typeof WebAssembly === "undefined") return [];
  const simd = compiles(SIMD);
  return [...(simd && compiles(RELAXED) ? ["relaxed" as const] : []), ...(simd ? ["simd" as const] : []), "scalar"];
}

export function hasMemory64(): boolean {
  try {
    new WebAssembly.Memory({ address: "i64", initial: 1n, maximum: 1n } as unknown as WebAssembly.MemoryDescriptor);
    return true;
  } catch {
    return false;
  }
}

/** Whether threads can share memory: in a tab only with the headers COOP and COEP. */
export function canShareMemory(): boolean {
  if (typeof SharedArrayBuffer === "undefined") return false;
  return typeof crossOriginIsolated === "undefined" || crossOriginIsolated;
}

/** Why threads cannot share memory, where they cannot. */
export function whyAlone(): string {
  return typeof crossOriginIsolated !== "undefined" && crossOriginIsolated
    ? "this browser shares no memory between threads"
    : "not cross-origin isolated";
}

export function cores(): number {
  return Math.max(1, Math.min(MAX_THREADS, navigator.hardwareConcurrency || 1));
}

/** Bytes that the machine has, as far as the browser says so. */
export function reportedMemory(): number | null {
  const gibibytes = (navigator as { deviceMemory?: number }).deviceMemory;
  return gibibytes ? gibibytes * 2 ** 30 : null;
}

export async function capabilities(): Promise<Capabilities> {
  const builds = runnableBuilds();
  const isolated = canShareMemory();
  let note = "";
  if (builds.length === 0) note = "This browser has no WebAssembly, so nothing can be trained in it.";
  else if (!isolated && crossOriginIsolated) note = "This browser shares no memory between threads, so training uses one thread.";
  else if (!isolated) note = "This page is not cross-origin isolated, so training uses one thread; serve it with COOP and COEP headers.";
  else if (builds[0] === "scalar") note = "This browser has no WebAssembly SIMD, so training will be slow.";
  return { builds, threads: isolated ? cores() : 1, isolated, memory64: hasMemory64(), webgpu: await findWebGpu(), note };
}
