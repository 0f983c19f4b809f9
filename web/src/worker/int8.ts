// A .tinygpt file in int8, byte for byte as tinygpt/store/formats/tinygpt_file.py writes one: a scale per row, which brings its largest
// number to 127, and the whole numbers that, times it, come nearest.
import { type ModelHeader, parse } from "../generated/protocol.ts";
import { type ModelFile, parted, type Reader, writeState } from "./modelfile.ts";
import { isStored } from "./tables.ts";

type Bytes = Uint8Array<ArrayBuffer>;

const LARGEST = 127;

/** The weights of a model's file, in a quarter of their size. */
export async function inInt8(file: ModelFile, reader: Reader): Promise<Bytes> {
  const { request, header } = parted(file.bytes, reader);
  const stated = parse(reader.alone(request, header, "int8"));
  const weights = file.weights();
  const parts: Bytes[] = [];
  let at = 0;
  for (const { shape } of stated.manifest) {
    const [rows, columns] = [shape[0]!, shape[1] ?? 0];
    const floats = weights.subarray(at, (at += rows * (columns || 1)));
    if (!columns) parts.push(new Uint8Array(floats.slice().buffer));
    else {
      const { scales, values } = scaled(floats, columns);
      parts.push(scales, values, new Uint8Array(-values.length & 3));
    }
  }
  if (stated.tables) parts.push(...tableParts(stated.tables, weights.subarray(at)));
  const body = new Uint8Array(await new Blob(parts).arrayBuffer());
  return writeState({ ...stated, stateByteLength: 4 + body.length }, file.front.progress.step, body);
}

/** The rows that are not zero; `tables.rows` counts them. */
function tableParts(tables: NonNullable<ModelHeader["tables"]>, floats: Float32Array): Bytes[] {
  const [rows, width] = tables.shape as [number, number];
  const bitmap = new Uint8Array(4 * Math.ceil(rows / 32));
  const kept: number[] = [];
  for (let row = 0; row < rows; row++)
    if (isStored(floats, row, width, 0)) {
      kept.push(row);
      bitmap[row >> 3]! |= 1 << (row & 7);
    }
  const stored = new Float32Array(kept.length * width);
  kept.forEach((row, i) => stored.set(floats.subarray(row * width, (row + 1) * width), i * width));
  tables.rows = kept.length;
  const { scales, values } = scaled(stored, width);
  return [bitmap, scales, values];
}

function scaled(floats: Float32Array, columns: number): { scales: Bytes; values: Bytes } {
  const scales = new Float32Array(floats.length / columns);
  const values = new Int8Array(floats.length);
  for (let row = 0; row < scales.length; row++) {
    const first = row * columns;
    let largest = 0;
    for (let i = first; i < first + columns; i++) largest = Math.max(largest, Math.abs(floats[i]!));
    scales[row] = largest / LARGEST;
    const divisor = scales[row]! || 1;
    for (let i = first; i < first + columns; i++) values[i] = Math.max(-LARGEST, Math.min(LARGEST, rounded(floats[i]! / divisor)));
  }
  return { scales: new Uint8Array(scales.buffer), values: new Uint8Array(values.buffer) };
}

/** To the nearest whole number, a half to the even one. */
function rounded(value: number): number {
  const below = Math.floor(value);
  const over = value - below;
  if (over !== 0.5) return over < 0.5 ? below : below + 1;
  return below % 2 === 0 ? below : below + 1;
}
