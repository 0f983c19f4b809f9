/** The engine's worker: one holds the model in hand, another is opened for what is only tried. */
export function openWorker(name: string): Worker {
  return new Worker(new URL("../engine/worker.ts", import.meta.url), { type: "module", name });
}
