// How long a run would take here: a second of its steps on an engine of its own, before anything is begun.
import { type EstimateRequest, parse, type Plan, text as json } from "../generated/protocol.ts";
import type { EstimatedRun, Machine, TrialEvent } from "./protocol.ts";
import type { Python } from "./python.ts";
import type { Line } from "./remote.ts";
import { Trial } from "./trial.ts";

export type Wanted = Omit<EstimateRequest, "bytes" | "device"> & Machine;

export async function estimated(
  { engine, threads, ...wanted }: Wanted,
  text: Uint8Array<ArrayBuffer>,
  python: Python,
  line: Line<TrialEvent>,
): Promise<EstimatedRun> {
  const trial = await Trial.on({ engine, threads }, line);
  let plan: Plan | undefined;
  const told = await trial.answer(() => {
    const estimate = python.estimate.Estimate(json({ ...wanted, bytes: text.length, ...trial.device() }));
    plan = parse(estimate.plan());
    return estimate.measure(trial, text.subarray(0, plan.trainBytes), text.subarray(plan.trainBytes));
  });
  return { bytes: plan!.bytes, parameters: plan!.parameters, ...told };
}
