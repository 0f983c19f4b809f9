// How fast this machine trains, see core/tab/measure.py: every reading has an engine of its own.
import { capabilities, cores, reportedMemory } from "./features.ts";
import type { EngineName, Measured, ToWorker } from "./protocol.ts";
import type { Python } from "./python.ts";
import { say } from "./run.ts";
import { Trial } from "./trial.ts";

export async function measured({ preset, text }: Extract<ToWorker, { type: "measure" }>, python: Python): Promise<Measured> {
  const { webgpu: gpu, note } = await capabilities();
  const rows = JSON.parse(python.measure.plan(JSON.stringify({ gpu }))) as [EngineName, number][];
  const readings: object[] = [];
  for (const [i, [name, round]] of rows.entries()) {
    say({ type: "measuring", engine: name, round, done: i, of: rows.length });
    readings.push({ name, ...(await read(name, preset, text, python)) });
  }
  const asked = { preset, agent: navigator.userAgent, cores: cores(), memory: reportedMemory(), gpu, note, readings };
  return JSON.parse(python.measure.report(JSON.stringify(asked))) as Measured;
}

async function read(name: EngineName, preset: string, text: Uint8Array, python: Python): Promise<object> {
  const trial = await Trial.on(name, 0);
  const request = { preset, bytes: text.length, ...trial.device() };
  return trial.answer<object>(async () => python.measure.Reading(JSON.stringify(request)).read(trial, text));
}
