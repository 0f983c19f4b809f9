// Capsules, see docs/capsule.md: one of a run that is kept, and one that is replayed. What is in them is core/capsule's.
import { digest, type Shelf } from "../storage/shelf.ts";
import { jsonText, ModelFile } from "./modelfile.ts";
import type { CapsuleFacts, CoreEvent, KeptStep, Shelved, ToWorker, Verdict } from "./protocol.ts";
import { type Python, type Replay, sentence } from "./python.ts";
import { Trial } from "./trial.ts";

type Bytes = Uint8Array<ArrayBuffer>;

const LARGEST = 2 ** 20; // bytes, as core/capsule/content.py has it

/** Of the last checkpoint of a run. */
export async function capsuleOf(id: string, shelf: Shelf, python: Python): Promise<{ name: string; blob: Blob }> {
  const folder = shelf.folder(id);
  const [model, meta] = [await folder.model(), await folder.meta()];
  if (!model || !meta) throw new Error("this run is not kept yet; train it a little longer");
  const file = await ModelFile.open(model.bytes, python.reader);
  const { config, progress } = file.front;
  const events = eventsIn(await folder.events(model.record.events));
  const { engine, devices } = model.record as { engine?: string; devices?: string[] };
  const request = {
    title: meta.title,
    text: meta.text,
    config,
    step: progress.step,
    tokensSeen: progress.tokens_seen,
    engine: engine ?? "",
    devices: devices ?? [""],
    weights: await file.weightsDigest(),
    rows: stepsIn(events),
    retimed: events.flatMap((event) => (event.event === "retime" ? [[event.step, event.before, event.steps]] : [])),
  };
  const told = JSON.parse(python.capsules.made(JSON.stringify(request))) as { capsule: object } | { error: string };
  if ("error" in told) throw new Error(told.error);
  const name = `${meta.title.replace(/[^\p{L}\p{N}. _-]+/gu, "-").slice(0, 60) || "run"}-step${progress.step}.capsule.json`;
  return { name, blob: new Blob([`${JSON.stringify(told.capsule, null, 1)}\n`], { type: "application/json" }) };
}

function eventsIn(bytes: Bytes): CoreEvent[] {
  const lines = new TextDecoder().decode(bytes).split("\n").filter(Boolean);
  return lines.map((line) => JSON.parse(line) as CoreEvent);
}

/** Of each step its loss and rate. */
function stepsIn(events: CoreEvent[]): [step: number, loss: number, lr: number][] {
  const blocks = events.filter((event) => event.event === "steps");
  return blocks.flatMap(({ rows }) => rows.map(([step, loss, , lr]): [number, number, number] => [step, loss, lr]));
}

function opened(capsule: Bytes, python: Python, more: object = {}): { replay: Replay; facts: CapsuleFacts } {
  if (capsule.length > LARGEST) throw new Error(`the capsule has more than ${LARGEST} bytes, and none has`);
  const text = jsonText(capsule, "the capsule");
  const replay = sentence(() => python.capsules.Replay(JSON.stringify({ capsule: text, ...more })));
  return { replay, facts: JSON.parse(replay.facts()) as CapsuleFacts };
}

export async function inspected(capsule: Bytes, shelf: Shelf, python: Python): Promise<{ facts: CapsuleFacts; kept: boolean; stops: KeptStep[] }> {
  const { replay, facts } = opened(capsule, python);
  const runs = await Promise.all((await shelf.ids()).map((id) => shelf.folder(id).facts<Shelved>()));
  const stops = JSON.parse(replay.stops(JSON.stringify(runs.filter(Boolean)))) as KeptStep[];
  return { facts, kept: (await shelf.text(facts.text.sha256)) !== null, stops };
}

/** What a replay begins with: its file, and what it is called. */
async function begun(from: KeptStep | File, shelf: Shelf, { reader }: Python): Promise<{ name: string; file: ModelFile }> {
  if (from instanceof File) return { name: from.name, file: await ModelFile.open(new Uint8Array(await from.arrayBuffer()), reader) };
  const found = await shelf.folder(from.run).model(from.step);
  if (!found) throw new Error(`step ${from.step} of ${from.title} is no longer kept; begin with another`);
  return { name: `step ${from.step} of ${from.title}`, file: await ModelFile.open(found.bytes, reader) };
}

export async function replayed(asked: Extract<ToWorker, { type: "replay" }>, shelf: Shelf, python: Python): Promise<Verdict> {
  const trial = await Trial.on(asked.engine, asked.threads);
  return trial.answer<Verdict>(async () => {
    const { steps, from } = asked;
    const start = from && (await begun(from, shelf, python));
    const { replay, facts } = opened(asked.capsule, python, { steps, from: start && { name: start.name, ...start.file.origin }, ...trial.device() });
    const text = asked.text ?? (await shelf.text(facts.text.sha256));
    if (!text) throw new Error(`the run learnt from ${facts.text.name}, which is not here; choose that text`);
    const sha256 = await digest(text);
    sentence(() => replay.check_text(sha256, text.length));
    return replay.run(trial, text.subarray(0, facts.trainBytes), start && start.file.body());
  });
}
