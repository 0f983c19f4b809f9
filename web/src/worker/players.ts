// Players as the page's worker makes them.
import * as assets from "./assets.ts";
import { type GpuPlaybook, type Json, parse, type Place, type Playbook } from "../generated/protocol.ts";
import type { Player } from "../players/contract.ts";
import type { Gpu } from "../players/gpu.ts";
import { GpuPlayer } from "../players/gpuplayer.ts";
import { type WasmOptions, WasmPlayer } from "../players/wasmplayer.ts";

const { kernels, shaders } = assets;

/** On the GPU, whose kernels are compiled one by one, or else in WebAssembly. */
export function makePlayer(
  playbook: Json<Playbook | GpuPlaybook>,
  gpu: Gpu | null,
  options: Omit<WasmOptions, "kernels">,
  onProgress: (made: number, of: number) => void,
): Promise<Player> {
  if (gpu) return GpuPlayer.create(gpu, parse(playbook) as GpuPlaybook, shaders, onProgress);
  return WasmPlayer.create(parse(playbook) as Playbook, { kernels, ...options });
}

/** What a program that draws start values leaves at these places. */
export async function startValues(playbook: Json<Playbook>, places: Json<Place[]>): Promise<Uint8Array<ArrayBuffer>> {
  const player = await WasmPlayer.create(parse(playbook), { kernels, threads: 1 });
  await player.run("init", 1);
  const drawn = await player.read(parse(places));
  player.close();
  return drawn;
}
