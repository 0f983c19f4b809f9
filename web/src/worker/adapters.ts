// Adapters beside what they stand on: a model whose bytes nobody changes.
import { type Origin, parse, type RunConfig, text } from "../generated/protocol.ts";
import { type ModelFile, type Reader, writeModelFile } from "./modelfile.ts";
import type { Base, SavedFile } from "./protocol.ts";

type Floats = Float32Array<ArrayBuffer>;

/** What adapters stand on, read. */
export interface Standing extends Base {
  config: RunConfig;
  weights: Floats;
}

/** A model's file as a base, without what its optimizer kept. */
export async function baseOf(file: ModelFile, title: string, reader: Reader): Promise<Standing> {
  const weights = file.weights();
  return { title, sha256: await file.weightsDigest(), bytes: await file.alone(reader), config: file.front.config, weights };
}

/** W + B A scale of every matrix that is adapted, rounded once. */
export function merged({ weights }: Standing, adapter: Floats, config: RunConfig, reader: Reader): Floats {
  const { scale, moves } = parse(reader.merging(text(config)));
  const result = weights.slice();
  for (const [base, a, b, outputs, inputs, rank] of moves)
    for (let row = 0; row < outputs; row++)
      for (let column = 0; column < inputs; column++) {
        let sum = 0;
        for (let i = 0; i < rank; i++) sum += adapter[b + row * rank + i]! * adapter[a + i * inputs + column]!;
        result[base + row * inputs + column] = weights[base + row * inputs + column]! + sum * scale;
      }
  return result;
}

/** The plain model that adapters make of their base, as a file. */
export async function mergedFile(
  base: Standing,
  adapter: Floats,
  { config, progress, adapter: named }: Origin,
  reader: Reader,
): Promise<SavedFile> {
  const { step } = progress;
  const header = parse(reader.merged_header(text({ config, progress, ...named! })));
  const weights = new Uint8Array(merged(base, adapter, config, reader).buffer);
  return { bytes: await writeModelFile(header, step, weights), name: `${named!.name}, merged.tinygpt`, step };
}
