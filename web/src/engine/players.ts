// Players as the page's worker makes them.
import * as assets from "./assets.ts";
import type { GpuPlaybook, Place, Playbook, Player } from "./contract.ts";
import type { Gpu } from "./gpu.ts";
import { GpuPlayer } from "./gpuplayer.ts";
import { type WasmOptions, WasmPlayer } from "./wasmplayer.ts";

const { kernels, shaders } = assets;

/** On the GPU, whose kernels are compiled one by one, or else in WebAssembly. */
export function makePlayer(
  playbook: unknown,
  gpu: Gpu | null,
  options: Omit<WasmOptions, "kernels">,
  onProgress: (made: number, of: number) => void,
): Promise<Player> {
  if (gpu) return GpuPlayer.create(gpu, playbook as GpuPlaybook, shaders, onProgress);
  return WasmPlayer.create(playbook as Playbook, { kernels, ...options });
}

/** What a program that draws start values leaves at these places. */
export async function startValues(playbook: string, places: string): Promise<Uint8Array<ArrayBuffer>> {
  const player = await WasmPlayer.create(JSON.parse(playbook) as Playbook, { kernels, threads: 1 });
  await player.run("init", 1);
  const drawn = await player.read(JSON.parse(places) as Place[]);
  player.close();
  return drawn;
}
