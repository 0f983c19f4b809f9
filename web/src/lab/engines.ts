// What can train an edit, and why the rest cannot.
import type { Planned } from "./protocol";

export type LabEngine = "wasm" | "webgpu" | "spec";

export const ENGINE_NAMES: Record<LabEngine, string> = {
  wasm: "CPU (WebAssembly)",
  webgpu: "GPU (WebGPU)",
  spec: "The specification (a tiny model)",
};

/** By engine: nothing where it can, else a sentence. `plans` are the original's and the edit's, as far as they are known. */
export function lacks(paths: string[], webgpu: boolean, plans: { original: Planned; edit: Planned } | null): Record<LabEngine, string> {
  const stem = (path: string): string => path.replace(/^.*\//, "").replace(/(_backward|_one|_plain|_row|_tile|_any)*\.\w+$/, "");
  const numpy = paths.filter((path) => /^kernels\/.*\.py$/.test(path));
  const wgsl = paths.filter((path) => path.endsWith(".wgsl"));
  const core = paths.filter((path) => path.startsWith("core/"));
  const declared = plans !== null && plans.original.declared !== plans.edit.declared;
  const found: Record<LabEngine, string> = { wasm: "", webgpu: "", spec: "" };
  if (declared) found.wasm = "Kernels are called with something else now, and C++ cannot be compiled in a tab.";
  else if (numpy.length) found.wasm = `${numpy[0]} has a C++ counterpart, which cannot be compiled in a tab.`;
  else if (wgsl.length) found.wasm = "WGSL runs on WebGPU alone.";
  const alone = numpy.filter((path) => !wgsl.some((other) => stem(other) === stem(path)));
  if (!webgpu) found.webgpu = "This browser has no WebGPU.";
  else if (alone.length) found.webgpu = `${alone[0]} is NumPy's: edit its WGSL counterpart, too.`;
  if (wgsl.length && !core.length && !numpy.length) found.spec = "The specification does not use WGSL.";
  return found;
}
