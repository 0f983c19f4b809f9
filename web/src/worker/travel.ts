// One prompt and one seed, continued by every snapshot of a run, each in an engine of its own: the model in hand stays.
import { type Changes, parse, text as json } from "../generated/protocol.ts";
import type { Shelf } from "../storage/shelf.ts";
import type { Standing } from "./adapters.ts";
import { standing } from "./bases.ts";
import { ModelFile } from "./modelfile.ts";
import type { Python } from "./python.ts";
import type { Line } from "./remote.ts";
import { WorkerRun } from "./run.ts";

export interface Travel {
  run: string;
  prompt: string;
  settings: Changes;
}

/** What a snapshot has written. */
export interface Stop {
  step: number;
  text: string;
}

export async function travel({ run, ...asked }: Travel, shelf: Shelf, python: Python, { tell, signal }: Line<Stop>): Promise<void> {
  const folder = shelf.folder(run);
  const stops = (await folder.facts())?.stops ?? [];
  const below = (await folder.meta())?.base;
  const kept = below ? await shelf.base(below.sha256) : null;
  const base = kept ? await standing({ bytes: kept }, below!.title, python.file) : null;
  for (const { step } of stops) {
    const found = await folder.model(step);
    tell({ step, text: found ? await written(found.bytes, base, asked, python, signal) : "" });
  }
}

async function written(
  bytes: Uint8Array<ArrayBuffer>,
  base: Standing | null,
  { prompt, settings }: Omit<Travel, "run">,
  python: Python,
  signal: AbortSignal,
): Promise<string> {
  const file = await ModelFile.open(bytes, python.file);
  const below = base ? { base: { config: base.config, sha256: base.sha256 } } : {};
  const session = python.session.Session(json({ preset: "", recipe: "", changes: {}, bytes: null, origin: file.origin, ...below }));
  const run = new WorkerRun(session, parse(session.plan()), null, { threads: 1 }, base, null, python.file, () => undefined);
  const text: number[] = [];
  try {
    await run.begin(new Uint8Array(), { header: session.header_text(), state: file.body() });
    const asked = { prompt: Array.from(new TextEncoder().encode(prompt)), settings };
    await run.write(asked, { tell: (piece) => text.push(...piece.bytes), signal });
    return new TextDecoder().decode(Uint8Array.from(text));
  } finally {
    run.close();
  }
}
