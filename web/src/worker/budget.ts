// Which run makes the most of a number of seconds on this machine. Python measures and chooses.
import { type Chosen, parse, type Stopped, type Stretch, text as json } from "../generated/protocol.ts";
import type { Start, TrialEvent } from "./protocol.ts";
import type { Python } from "./python.ts";
import type { Line } from "./remote.ts";
import { Trial } from "./trial.ts";

export async function choose(
  { changes, hardness, ...machine }: Pick<Start, "changes" | "engine" | "hardness" | "threads">,
  seconds: number,
  text: Uint8Array<ArrayBuffer>,
  python: Python,
  line: Line<TrialEvent>,
): Promise<Chosen | Stopped> {
  const trial = await Trial.on(machine, line);
  return trial.answer(() => {
    const budget = python.budget.Budget(
      json({ seconds, bytes: text.length, changes, ...(hardness === undefined ? {} : { hardness }), ...trial.device() }),
    );
    const [learned, scored] = parse(budget.wanted());
    const [train, val] = [text.subarray(0, budget.train_bytes), text.subarray(budget.train_bytes)];
    const cut = (part: Uint8Array, places: Stretch[]): number[][] => places.map(([at, size]) => Array.from(part.subarray(at, at + size)));
    return budget.choose(trial, train, val, json([cut(train, learned!), cut(val, scored!)]));
  });
}
