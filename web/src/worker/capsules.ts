// Capsules, see docs/capsule.md: one of a run that is kept, and one that is replayed. What is in them is core/capsule's.
import { digest, safeName } from "../lib/bytes.ts";
import type { Shelf } from "../storage/shelf.ts";
import { LARGEST_CAPSULE } from "../generated/constants.ts";
import { parse, text as json } from "../generated/protocol.ts";
import type { CapsuleFacts, CoreEvent, KeptStep, RateRow, Replay, ReplayRequest, Retiming, Verdict } from "../generated/protocol.ts";
import { jsonText, ModelFile } from "./modelfile.ts";
import type { Machine, TrialEvent } from "./protocol.ts";
import { answer, sentence } from "./answers.ts";
import type { Python } from "./python.ts";
import type { Line } from "./remote.ts";
import { Trial } from "./trial.ts";

type Bytes = Uint8Array<ArrayBuffer>;

/** Of the last checkpoint of a run. */
export async function capsuleOf(id: string, shelf: Shelf, python: Python): Promise<{ name: string; blob: Blob }> {
  const folder = shelf.folder(id);
  const [model, meta] = [await folder.model(), await folder.meta()];
  if (!model || !meta) throw new Error("this run is not kept yet; train it a little longer");
  const file = await ModelFile.open(model.bytes, python.file);
  const { config, progress } = file.front;
  const events = (await folder.log(model.record)).lines.map((line) => JSON.parse(line) as CoreEvent);
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
    retimed: events.flatMap((event) => (event.event === "retime" ? [[event.step, event.before, event.steps] satisfies Retiming] : [])),
  };
  const { capsule } = answer(python.capsules.made(json(request)));
  const name = `${safeName(meta.title)}-step${progress.step}.capsule.json`;
  return { name, blob: new Blob([`${JSON.stringify(capsule, null, 1)}\n`], { type: "application/json" }) };
}

/** Of each step its loss and rate. */
function stepsIn(events: CoreEvent[]): RateRow[] {
  const blocks = events.filter((event) => event.event === "steps");
  return blocks.flatMap(({ rows }) => rows.map(([step, loss, , lr]): RateRow => [step, loss, lr]));
}

function opened(capsule: Bytes, python: Python, more: Omit<ReplayRequest, "capsule"> = {}): { replay: Replay; facts: CapsuleFacts } {
  if (capsule.length > LARGEST_CAPSULE) throw new Error(`the capsule has more than ${LARGEST_CAPSULE} bytes, and none has`);
  if (capsule.find((byte) => byte > 32) !== 123) throw new Error("this file is no capsule"); // an object's brace
  const text = jsonText(capsule, "the capsule");
  const replay = sentence(() => python.capsules.Replay(json({ capsule: text, ...more })));
  return { replay, facts: parse(replay.facts()) };
}

export async function inspected(
  capsule: Bytes,
  shelf: Shelf,
  python: Python,
): Promise<{ facts: CapsuleFacts; kept: boolean; stops: KeptStep[] }> {
  const { replay, facts } = opened(capsule, python);
  const stops = parse(replay.stops(json(await shelf.facts())));
  return { facts, kept: (await shelf.text(facts.text.sha256)) !== null, stops };
}

/** What a replay begins with: its file, and what it is called. */
async function begun(from: KeptStep | File, shelf: Shelf, { file: reader }: Python): Promise<{ name: string; file: ModelFile }> {
  if (from instanceof File) return { name: from.name, file: await ModelFile.open(new Uint8Array(await from.arrayBuffer()), reader) };
  const found = await shelf.folder(from.run).model(from.step);
  if (!found) throw new Error(`step ${from.step} of ${from.title} is no longer kept; begin with another`);
  return { name: `step ${from.step} of ${from.title}`, file: await ModelFile.open(found.bytes, reader) };
}

/** A stretch of a capsule's run. */
export interface ReplayWish extends Machine {
  capsule: Bytes;
  from: KeptStep | File | null; // what it begins with: what is kept of a run, a model file, or null: start values
  steps: number | null; // null: all that are left
  text: Bytes | null; // null: it is among those that are kept
}

export async function replayed(asked: ReplayWish, shelf: Shelf, python: Python, line: Line<TrialEvent>): Promise<Verdict> {
  const trial = await Trial.on(asked, line);
  return trial.answer(async () => {
    const { steps, from } = asked;
    const start = from && (await begun(from, shelf, python));
    const { replay, facts } = opened(asked.capsule, python, {
      steps,
      origin: start && { name: start.name, ...start.file.origin },
      ...trial.device(),
    });
    const text = asked.text ?? (await shelf.text(facts.text.sha256));
    if (!text) throw new Error(`the run learnt from ${facts.text.name}, which is not here; choose that text`);
    const sha256 = await digest(text);
    sentence(() => replay.check_text(sha256, text.length));
    return replay.run(trial, text.subarray(0, facts.trainBytes), start && start.file.body());
  });
}
