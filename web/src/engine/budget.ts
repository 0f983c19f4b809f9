// So many seconds: which run makes the most of them on this machine. Python measures and chooses.
import type { ToWorker } from "./protocol.ts";
import type { BudgetAnswer, Python } from "./python.ts";
import { Trial } from "./trial.ts";

type Start = Extract<ToWorker, { type: "start" }>;
type Chosen = Exclude<BudgetAnswer, { error: string }>;

/** `begun` is given the trial, which can be stopped. */
export async function choose(
  { engine, threads }: Start,
  seconds: number,
  text: Uint8Array<ArrayBuffer>,
  python: Python,
  begun: (trial: Trial) => void,
): Promise<Chosen> {
  const trial = await Trial.on(engine, threads ?? 0);
  begun(trial);
  return trial.answer<Chosen>(() => {
    const budget = python.budget({ seconds, bytes: text.length, ...trial.device() });
    const [learned, scored] = JSON.parse(budget.wanted()) as [number, number][][];
    const [train, val] = [text.subarray(0, budget.train_bytes), text.subarray(budget.train_bytes)];
    const cut = (part: Uint8Array, places: [number, number][]): number[][] => places.map(([at, size]) => Array.from(part.subarray(at, at + size)));
    return budget.choose(trial, train, val, JSON.stringify([cut(train, learned!), cut(val, scored!)]));
  });
}
