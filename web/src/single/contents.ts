// What is packed into the page: tinygpt/store/formats/web_page.py puts the plan and the model there, the build the kernels.
import type { FileModule, WritingPlan } from "../generated/protocol.ts";
import { text } from "../generated/protocol.ts";
import { WasmPlayer } from "../players/wasmplayer.ts";
import { ModelFile } from "../worker/modelfile.ts";

type Bytes = Uint8Array<ArrayBuffer>;

export interface Contents extends WritingPlan {
  title: string;
  prompt: string;
}

export async function contents(): Promise<Contents> {
  return JSON.parse(new TextDecoder().decode(await unpacked("plan"))) as Contents;
}

/** The model's own .tinygpt file. */
export function modelFile(): Promise<Bytes> {
  return unpacked("model");
}

/** An engine that has the model's weights; on one thread, with the kernels that every browser rounds alike. */
export async function player(plan: WritingPlan): Promise<WasmPlayer> {
  const kernels = (): Promise<Bytes> => unpacked("kernels");
  const made = await WasmPlayer.create(plan.playbook, { kernels, threads: 1, build: "simd" });
  const reader: Pick<FileModule, "measure" | "front"> = { measure: () => text(plan.header), front: () => text(plan.front) };
  const file = await ModelFile.open(await modelFile(), reader);
  await made.write(plan.weights, plan.compact ? file.packed() : new Uint8Array(file.weights().buffer));
  return made;
}

async function unpacked(id: string): Promise<Bytes> {
  const letters = atob(document.getElementById(id)!.textContent.trim());
  const packed = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i++) packed[i] = letters.charCodeAt(i);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}
