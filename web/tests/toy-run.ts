// A small run as the worker would keep it, in files that a test can damage.
import { writeModelFile } from "../src/worker/modelfile";
import { type ModelHeader, parse, text } from "../src/generated/protocol";
import type { Python } from "../src/worker/python";
import { Keeper } from "../src/storage/keeper";
import type { Shelf } from "../src/storage/shelf";

const SIZES = { layers: 1, d_model: 8, heads: 2, ctx: 8, ngrams: "2,3", ngram_rows: 256, ngram_width: 4 };
const CHANGES = { ...SIZES, batch: 2, steps: 100, optimizer: "adamw" };
export const NO_PAST = { steps: 100, history: [] };
export const TEXT = new TextEncoder().encode("all that it learns from ".repeat(20));

/** Its checkpoints are at these steps, two slots by turns, the first one with a snapshot. */
export async function keepRun(shelf: Shelf, python: Python, title: string, steps: number[] = [10, 20, 30]): Promise<string> {
  const session = python.session.Session(text({ preset: "tiny", recipe: "classic", changes: CHANGES, bytes: TEXT.length }));
  const { config, parameters } = parse(session.plan());
  const header = parse(session.header_text()) as ModelHeader;
  const [rows, width] = header.tables!.shape as [number, number];
  const dense = header.stateByteLength / 4 - 1 - rows / 32; // the header counts a bit for each row, and no row
  const keeper = Keeper.fresh(shelf);
  keeper.begin(0, { title, textName: "a text" }, TEXT, NO_PAST);
  for (const [i, step] of steps.entries()) {
    const steps = Array.from({ length: 10 }, (_, at) => [step - 9 + at, 5 - step / 100, 1, 0.001]);
    keeper.note(step, JSON.stringify({ event: "steps", rows: steps, tokens_per_s: 1, eta_s: 1 }));
    keeper.note(step, JSON.stringify({ event: "eval", step, val_loss: 5, best: true }));
    const facts = { loss: 4, best: 5, tokens: 7, history: [[step, 4]], validations: [], sample: "", config, parameters, engine: "wasm" };
    const record = { sequence: i + 1, step, ...facts };
    const told = { ...record, weights: "", savedAt: "" };
    const weights = parse(python.shelf.salvage(JSON.stringify(told)));
    const floats = Float32Array.from({ length: dense + rows * (width + 1) }, (_, at) => Math.sin(step + at));
    for (let row = 0; row < rows; row += 2) floats.fill(0, dense + row * width, dense + (row + 1) * width);
    for (let row = 0; row < rows; row += 4) floats[dense + rows * width + row] = 0; // of half of those, nothing is left
    const file = await writeModelFile({ ...header, rng: { ...header.rng, step } }, step, new Uint8Array(floats.buffer));
    await keeper.keep({ slot: i % 2, record, weights, snapshot: i === 0, drop: [] }, file);
  }
  keeper.release();
  return keeper.folder.id;
}
