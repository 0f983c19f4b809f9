// How long a run would take here: a second of its steps on an engine of its own, before anything is begun.
import type { Estimated, ToWorker } from "./protocol.ts";
import type { Plan, Python } from "./python.ts";
import { Trial } from "./trial.ts";

export async function estimated(
  { id, preset, recipe, inHand, lora, changes, engine, threads }: Extract<ToWorker, { type: "estimate" }>,
  text: Uint8Array<ArrayBuffer>,
  python: Python,
): Promise<Estimated> {
  const trial = await Trial.on(engine, threads);
  let plan: Plan | undefined;
  const told = await trial.answer<{ seconds: number; ms: number }>(() => {
    const estimate = python.estimate({ preset, recipe, inHand, lora, changes, bytes: text.length, ...trial.device() });
    plan = JSON.parse(estimate.plan()) as Plan;
    return estimate.measure(trial, text.subarray(0, plan.trainBytes), text.subarray(plan.trainBytes));
  });
  return { id, bytes: plan!.bytes, parameters: plan!.parameters, ...told };
}
