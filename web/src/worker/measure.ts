// How fast this machine trains, see core/tab/measure.py: every reading has an engine of its own.
import { type EngineName, type Measured, type NamedReading, parse, text as json } from "../generated/protocol.ts";
import { capabilities, cores, reportedMemory } from "../players/features.ts";
import type { TrialEvent } from "./protocol.ts";
import type { Python } from "./python.ts";
import type { Line } from "./remote.ts";
import { Trial } from "./trial.ts";

/** Which of the readings comes next, and what is heard of it. */
export type MeasureEvent = TrialEvent | { event: "reading"; engine: EngineName; round: number; done: number; of: number };

export async function measured(preset: string, text: Uint8Array<ArrayBuffer>, python: Python, line: Line<MeasureEvent>): Promise<Measured> {
  const { webgpu: gpu, note } = await capabilities();
  const rows = parse(python.measure.plan(json({ gpu })));
  const readings: NamedReading[] = [];
  for (const [i, [engine, round]] of rows.entries()) {
    line.tell({ event: "reading", engine, round, done: i, of: rows.length });
    const trial = await Trial.on({ engine, threads: 0 }, line);
    const request = json({ preset, bytes: text.length, ...trial.device() });
    readings.push({ name: engine, ...(await trial.answer(async () => python.measure.Reading(request).read(trial, text))) });
  }
  const asked = { preset, agent: navigator.userAgent, cores: cores(), memory: reportedMemory(), gpu, note, readings };
  return parse(python.measure.report(json(asked)));
}
