// Where the weights lie in a checkpoint's file: their digest proves them, whatever became of the rest.
import type { Weights } from "../generated/protocol.ts";
import { PREFIX_BYTES, STEP_BYTES } from "../generated/constants.ts";

type Bytes = Uint8Array<ArrayBuffer>;

/** The weights of a checkpoint, in the model's order, and what is stored of so many rows of n-gram tables. */
export function weightsIn(file: Bytes, { bytes, pieces, tables }: Weights, rows: number): Bytes {
  const stored = tables ? tables.bitmap + rows * tables.row : 0;
  const state = file.subarray(file.length - bytes - stored - (tables ? rows * tables.square : 0));
  const parts: readonly (readonly [number, number])[] = [...pieces, [bytes, stored]];
  const weights = new Uint8Array(parts.reduce((sum, [, length]) => sum + length, 0));
  let at = 0;
  for (const [start, length] of parts) {
    weights.set(state.subarray(start, start + length), at);
    at += length;
  }
  return weights;
}

/** How many rows of n-gram tables a sound checkpoint has. */
export function rowsIn(file: Bytes, { bytes, tables }: Weights): number {
  if (!tables) return 0;
  const header = new DataView(file.buffer, file.byteOffset).getUint32(8, true);
  return (file.length - PREFIX_BYTES - header - STEP_BYTES - bytes - tables.bitmap) / (tables.row + tables.square);
}
