import type { Capabilities, EngineName } from "../engine/protocol";

/** A software adapter can be chosen, but is never the default. */
export function defaultEngine(capabilities: Capabilities | null): EngineName {
  return capabilities?.webgpu && !capabilities.webgpu.software ? "webgpu" : "wasm";
}
