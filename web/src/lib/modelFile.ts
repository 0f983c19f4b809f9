// A look at a .tinygpt file, to show what it is and to set the page's fields. The worker checks and loads it.
import { site } from "./site";
import type { Changes, RunConfig } from "../engine/protocol";

export interface ModelFile {
  name: string;
  bytes: Uint8Array<ArrayBuffer>;
  config: RunConfig;
  step: number;
  loss: number | null;
  history: [number, number][];
  sample: string;
}

const PREFIX = 12; // "TGPT", version, header's length

export async function readModelFile(file: File): Promise<ModelFile> {
  let buffer: ArrayBuffer;
  try {
    buffer = await file.arrayBuffer();
  } catch {
    throw new Error(`${file.name} cannot be read; it may be larger than this browser lets a page hold.`);
  }
  return parseModelFile(file.name, buffer);
}

export function parseModelFile(name: string, buffer: ArrayBuffer): ModelFile {
  const view = new DataView(buffer);
  const magic = new TextDecoder().decode(buffer.slice(0, 4));
  if (magic !== "TGPT" || buffer.byteLength < PREFIX + 4) throw new Error(`${name} is no .tinygpt file.`);
  const length = view.getUint32(8, true);
  if (PREFIX + length + 4 > buffer.byteLength) throw new Error(`${name} is cut off within its header.`);
  let header: Record<string, unknown>;
  try {
    header = JSON.parse(new TextDecoder().decode(buffer.slice(PREFIX, PREFIX + length)));
  } catch {
    throw new Error(`${name} has a header that is no JSON.`);
  }
  return {
    name,
    bytes: new Uint8Array(buffer),
    config: configOf(header["config"]),
    step: view.getInt32(PREFIX + length, true),
    loss: typeof header["finalLoss"] === "number" ? header["finalLoss"] : null,
    history: historyOf(header["lossHistory"]),
    sample: typeof header["sample"] === "string" ? header["sample"] : "",
  };
}

/** The file's settings under core's names; a training setting that it lacks has core's default. */
function configOf(stated: unknown): RunConfig {
  const values = (typeof stated === "object" && stated !== null ? stated : {}) as Changes;
  const config: RunConfig = { model: {}, train: {} };
  for (const knob of site.knobs) {
    const value = values[knob.fileKey] ?? knob.default;
    if (knob.section === "model") config.model[knob.name] = Number(value);
    if (knob.section === "train") config.train[knob.name] = value;
  }
  return config;
}

function historyOf(points: unknown): [number, number][] {
  if (!Array.isArray(points)) return [];
  return points.filter(
    (point): point is [number, number] =>
      Array.isArray(point) && typeof point[0] === "number" && typeof point[1] === "number",
  );
}
