// N-gram tables of a .tinygpt file, which has the rows that are not zero: docs/format.md. A player has all of them.
import type { ModelHeader, TableFacts } from "../generated/protocol.ts";

type Bytes = Uint8Array<ArrayBuffer>;
type Floats = Float32Array<ArrayBuffer>;

/** The rows that a file has, by their numbers, and their floats; `squares` are what an optimizer keeps of each. */
export interface StoredRows {
  numbers: number[];
  floats: Float32Array;
  squares: Float32Array;
}

/** What a file's state has of tables; `floats` makes numbers of bytes as the file keeps them. */
export function storedRows(
  state: Bytes,
  facts: TableFacts,
  rowBytes: number,
  floats: (bytes: Bytes, rows: number) => Float32Array,
): StoredRows {
  const { at, bitmap, rows, stored } = facts;
  const numbers = [];
  for (let row = 0; row < rows; row++) if ((state[at + (row >> 3)]! >> (row & 7)) & 1) numbers.push(row);
  if (numbers.length !== stored)
    throw new Error(
      `the header promises ${stored.toLocaleString("en")} rows of n-gram tables, but ${numbers.length.toLocaleString("en")} are marked`,
    );
  const first = at + bitmap;
  const end = first + stored * rowBytes;
  const squares = new Float32Array(state.slice(end, end + 4 * stored).buffer);
  return { numbers, floats: floats(state.slice(first, end), stored), squares };
}

/** All rows, and with `squares` what is kept of each: zeros where a file has none. */
export function allRows({ numbers, floats, squares }: StoredRows, { rows, width }: TableFacts, withSquares: boolean): Floats {
  const all = new Float32Array(rows * width + (withSquares ? rows : 0));
  numbers.forEach((row, i) => {
    all.set(floats.subarray(i * width, (i + 1) * width), row * width);
    if (withSquares) all[rows * width + row] = squares[i] ?? 0;
  });
  return all;
}

/** A header and a state that ends with all rows, as a file has them. */
export function withStoredRows<H extends Partial<ModelHeader>>(header: H, body: Bytes): { header: H; body: Bytes } {
  if (!header.tables) return { header, body };
  const [rows, width] = header.tables.shape as [number, number];
  const squared = header.includesOptimizerState ? rows : 0;
  const dense = body.length - 4 * (rows * width + squared);
  const floats = new Float32Array(body.slice(dense).buffer);
  const bitmap = new Uint8Array(4 * Math.ceil(rows / 32));
  const numbers = [];
  for (let row = 0; row < rows; row++)
    if (isStored(floats, row, width, squared ? floats[rows * width + row]! : 0)) {
      numbers.push(row);
      bitmap[row >> 3]! |= 1 << (row & 7);
    }
  const stored = new Float32Array(numbers.length * (width + (squared ? 1 : 0)));
  numbers.forEach((row, i) => {
    stored.set(floats.subarray(row * width, (row + 1) * width), i * width);
    if (squared) stored[numbers.length * width + i] = floats[rows * width + row]!;
  });
  const packed = new Uint8Array(dense + bitmap.length + stored.byteLength);
  packed.set(body.subarray(0, dense));
  packed.set(bitmap, dense);
  packed.set(new Uint8Array(stored.buffer), dense + bitmap.length);
  const tables = { ...header.tables, rows: numbers.length };
  return { header: { ...header, tables, stateByteLength: 4 + packed.length }, body: packed };
}

export function isStored(floats: Float32Array, row: number, width: number, square: number): boolean {
  if (square !== 0) return true;
  for (let i = row * width; i < (row + 1) * width; i++) if (floats[i] !== 0) return true;
  return false;
}
