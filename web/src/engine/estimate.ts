// How long a run would take here: a second of its steps on an engine of its own, before anything is begun.
import { Gpu } from "./gpu.ts";
import type { Estimated, ToWorker } from "./protocol.ts";
import type { Plan, Python } from "./python.ts";
import { Trial } from "./trial.ts";

export async function estimated(
  { id, preset, recipe, changes, engine, threads }: Extract<ToWorker, { type: "estimate" }>,
  text: Uint8Array<ArrayBuffer>,
  python: Python,
): Promise<Estimated> {
  const gpu = engine === "webgpu" ? await Gpu.open() : null;
  const trial = new Trial(gpu, threads);
  let plan: Plan | undefined;
  const told = await trial.answer<{ seconds: number; ms: number }>(() => {
    const device = gpu ? { device: gpu.facts() } : {};
    const estimate = python.estimate({ preset, recipe, changes, bytes: text.length, ...device });
    plan = JSON.parse(estimate.plan()) as Plan;
    return estimate.measure(trial, text.subarray(0, plan.trainBytes), text.subarray(plan.trainBytes));
  });
  return { id, bytes: plan!.bytes, parameters: plan!.parameters, ...told };
}
