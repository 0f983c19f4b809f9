// One prompt and one seed, written on from by every snapshot of a run, in engines of their own: the model in hand stays.
import type { Shelf } from "../storage/shelf.ts";
import type { Standing } from "./adapters.ts";
import * as assets from "./assets.ts";
import { standing } from "./bases.ts";
import type { Playbook } from "./contract.ts";
import { ModelFile } from "./modelfile.ts";
import type { Shelved, ToWorker } from "./protocol.ts";
import { bridge, type Page, type Python, sentence } from "./python.ts";
import { say } from "./run.ts";
import { WasmPlayer } from "./wasmplayer.ts";

type Travel = Extract<ToWorker, { type: "travel" }>;

export async function travel({ run, prompt, settings }: Travel, shelf: Shelf, python: Python): Promise<void> {
  const folder = shelf.folder(run);
  const stops = (await folder.facts<Shelved>())?.stops ?? [];
  const below = (await folder.meta())?.base;
  const kept = below ? await shelf.base(below.sha256) : null;
  const base = kept ? await standing({ bytes: kept }, below!.title, python.reader) : null;
  for (const [i, { step }] of stops.entries()) {
    const found = await folder.model(step);
    const text = found ? await written(found.bytes, base, prompt, settings, python) : "";
    say({ type: "travelled", run, step, text, last: i === stops.length - 1 });
  }
}

async function written(bytes: Uint8Array<ArrayBuffer>, base: Standing | null, prompt: string, settings: Travel["settings"], python: Python): Promise<string> {
  const file = await ModelFile.open(bytes, python.reader);
  const below = base ? { base: { config: base.config, sha256: base.sha256 } } : {};
  const session = python.session({ preset: "", recipe: "", changes: {}, bytes: null, from: file.origin, ...below });
  session.plan();
  let player: WasmPlayer | null = null;
  let fault: unknown = null;
  const text: number[] = [];
  const asked = [JSON.stringify([{ type: "write", id: 0, prompt: Array.from(new TextEncoder().encode(prompt)), settings }])];
  const page: Partial<Page> = {
    open: async (playbook) => {
      player = await WasmPlayer.create(JSON.parse(playbook) as Playbook, { kernels: assets.kernels, threads: 1 });
      return bridge(player, () => false, (error) => (fault = error));
    },
    now: () => performance.now() / 1000,
    emit: () => undefined,
    stopping: () => false,
    requests: () => asked.pop() ?? "[]",
    zeros: (size) => new Uint8Array(size),
    written: (piece) => {
      text.push(...(JSON.parse(piece) as [number, number[]])[1]);
      return true;
    },
    refused: (message) => (fault = new Error(message)),
  };
  try {
    await sentence(() => session.open(page as Page, new Uint8Array(), new Uint8Array(), file.body(), base && new Uint8Array(base.weights.buffer)));
    await session.attend();
    if (fault) throw fault;
    return new TextDecoder().decode(Uint8Array.from(text));
  } finally {
    (player as WasmPlayer | null)?.close();
  }
}
