// The bytes of a .tinygpt file and of an adapter's, see docs/format.md and docs/lora.md. What a file's front says is Python's; here floats are
// moved and checked.
import { FILE_VERSION, PREFIX_BYTES, STEP_BYTES } from "../generated/constants.ts";
import { parse, text } from "../generated/protocol.ts";
import type { AdapterHeader, FileModule, FileStart, Front, Json, ModelHeader, Origin, Piece, TableFacts } from "../generated/protocol.ts";
import { digest } from "../lib/bytes.ts";
import { answer } from "./answers.ts";
import { allRows, storedRows, type StoredRows, withStoredRows } from "./tables.ts";

export type Reader = FileModule;
/** What opening a file takes of it. */
export type FrontReader = Pick<Reader, "measure" | "front">;

/** A file that was found to be sound: its front, its digest and every float. */
export class ModelFile {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly front: Front;
  private readonly state: Uint8Array<ArrayBuffer>; // all that follows the header; a model's begins with its step
  private readonly tables: StoredRows | null;

  private constructor(bytes: Uint8Array<ArrayBuffer>, front: Front, state: Uint8Array<ArrayBuffer>) {
    this.bytes = bytes;
    this.front = front;
    this.state = state;
    this.tables = front.tables && storedRows(state, front.tables, this.rowBytes(front.tables), (bytes, rows) => this.numbers(bytes, rows));
  }

  static async open(bytes: Uint8Array<ArrayBuffer>, reader: FrontReader): Promise<ModelFile> {
    const { request, header, state } = parted(bytes, reader);
    const front = answer(reader.front(request, header));
    if (front.sha256 && front.sha256 !== (await digest(state))) throw new Error(front.damaged);
    const file = new ModelFile(bytes, front, state);
    file.requireFinite();
    return file;
  }

  get origin(): Origin {
    const { config, progress, slots, adapter, dtype } = this.front;
    return { config, progress, slots, adapter, dtype };
  }

  /** The state as a player takes it: w and the slots of each parameter, then all rows of n-gram tables, with zeros for what it lacks. */
  body(): Uint8Array<ArrayBuffer> {
    const { vectors, taken } = this.front;
    return new Uint8Array(joined(this.vectors(vectors, taken), this.rows(vectors > 1, taken > 1)).buffer);
  }

  /** All rows of n-gram tables; `squares`: with what an optimizer keeps of each, zeros where it is not `known`. */
  private rows(squares: boolean, known = true): Float32Array<ArrayBuffer> {
    const { front, tables } = this;
    if (!front.tables || !tables) return new Float32Array();
    return allRows(known ? tables : { ...tables, squares: new Float32Array() }, front.tables, squares);
  }

  private rowBytes({ width }: TableFacts): number {
    return this.front.dtype === "int8" ? 4 + width : this.front.floatBytes * width;
  }

  /** So many rows of a table, or of a matrix with a scale per row. */
  private numbers(bytes: Uint8Array<ArrayBuffer>, rows: number): Float32Array {
    if (this.front.dtype === "int8") return unscaled(new Int8Array(bytes.buffer, 4 * rows), new Float32Array(bytes.buffer, 0, rows));
    return this.front.floatBytes === 4 ? new Float32Array(bytes.buffer) : widened(new Uint16Array(bytes.buffer));
  }

  /** Weights in int8 as the file has them, in the model's order, then all rows of n-gram tables as floats. */
  packed(): Uint8Array<ArrayBuffer> {
    const parts = this.front.pieces
      .toSorted((a, b) => a[2] - b[2])
      .map(([, [start], , size, , , scaled]) => {
        const length = scaled ? 4 * scaled + 4 * Math.ceil(size / 4) : 4 * size;
        return this.state.subarray(start!, start! + length);
      });
    parts.push(new Uint8Array(this.rows(false).buffer));
    const packed = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
    let at = 0;
    for (const part of parts) {
      packed.set(part, at);
      at += part.length;
    }
    return packed;
  }

  /** In the model's order, n-gram tables last. */
  weights(): Float32Array<ArrayBuffer> {
    return joined(this.vectors(1, 1), this.rows(false));
  }

  /** So many vectors, of which the file has the first ones. */
  private vectors(vectors: number, taken: number): Float32Array<ArrayBuffer> {
    const { parameters, pieces } = this.front;
    const floats = new Float32Array(vectors * parameters);
    for (const piece of pieces)
      for (let array = 0; array < taken; array++) {
        const [, , offset, size, rows, columns] = piece;
        const stored = this.floats(piece, array);
        floats.set(rows ? turned(stored, rows, columns) : stored, vectors * offset + array * size);
      }
    return floats;
  }

  /** The sha256 of the weights alone, in the model's order. */
  async weightsDigest(): Promise<string> {
    return digest(new Uint8Array(this.weights().buffer));
  }

  /** A file with the weights and nothing of an optimizer: this one, where it is so already. */
  async alone(reader: Reader): Promise<Uint8Array<ArrayBuffer>> {
    return this.front.slots.length === 0 ? this.bytes : this.withWeights(this.weights(), reader);
  }

  /** A file of the same model with other weights and nothing of an optimizer. */
  withWeights(weights: Float32Array<ArrayBuffer>, reader: Reader): Promise<Uint8Array<ArrayBuffer>> {
    const { request, header } = parted(this.bytes, reader);
    return writeModelFile(parse(reader.alone(request, header, "float32")), this.front.progress.step, new Uint8Array(weights.buffer));
  }

  private requireFinite(): void {
    const { arrays, pieces, notFinite } = this.front;
    for (const piece of pieces) {
      let zero = 0; // times anything but NaN and infinity
      for (let array = 0; array < arrays; array++) for (const value of this.floats(piece, array)) zero += 0 * value;
      if (zero !== 0) throw new Error(`${piece[0]} ${notFinite}`);
    }
    for (const floats of this.tables ? [this.tables.floats, this.tables.squares] : [])
      if (floats.some((value) => !Number.isFinite(value))) throw new Error(`tables ${notFinite}`);
  }

  /** A copy of the tensor's array of that number: they need not lie where a view of floats may begin. */
  private floats([, places, , size, , , scaled]: Piece, array: number): Float32Array {
    const { floatBytes } = this.front;
    const start = places[array]!;
    if (scaled) {
      const values = start + 4 * scaled;
      const scales = new Float32Array(this.state.slice(start, values).buffer);
      return unscaled(new Int8Array(this.state.slice(values, values + size).buffer), scales);
    }
    const stored = this.state.slice(start, start + floatBytes * size).buffer;
    return floatBytes === 4 ? new Float32Array(stored) : widened(new Uint16Array(stored));
  }
}

/** The step of a file that states a digest of its state and has it; null of any other. */
export async function provenStep(bytes: Uint8Array<ArrayBuffer>, reader: Reader): Promise<number | null> {
  try {
    const { front } = await ModelFile.open(bytes, reader);
    return front.sha256 ? front.progress.step : null;
  } catch {
    return null;
  }
}

/** A file's header and what follows it; `request` tells Python of the rest. */
export function parted(
  bytes: Uint8Array<ArrayBuffer>,
  reader: FrontReader,
): { request: Json<FileStart>; header: string; state: Uint8Array<ArrayBuffer> } {
  const size = bytes.length;
  const prefix = Array.from(bytes.subarray(0, PREFIX_BYTES));
  const { start, length } = answer(reader.measure(text({ prefix, size })));
  const state = bytes.subarray(start + length);
  const step = Array.from(state.subarray(0, STEP_BYTES));
  return { request: text({ prefix, step, size }), header: jsonText(bytes.subarray(start, start + length)), state };
}

function joined(a: Float32Array<ArrayBuffer>, b: Float32Array<ArrayBuffer>): Float32Array<ArrayBuffer> {
  if (!b.length) return a;
  const both = new Float32Array(a.length + b.length);
  both.set(a);
  both.set(b, a.length);
  return both;
}

/** Each row times its scale, rounded once. */
function unscaled(values: Int8Array, scales: Float32Array): Float32Array {
  const columns = values.length / scales.length;
  return Float32Array.from(values, (value, i) => value * scales[Math.floor(i / columns)]!);
}

let every: Float32Array | null = null; // float16, by its bits

/** Not every browser has a Float16Array. */
function widened(halves: Uint16Array): Float32Array {
  every ??= Float32Array.from({ length: 1 << 16 }, (_, bits) => half(bits));
  const floats = new Float32Array(halves.length);
  for (let i = 0; i < halves.length; i++) floats[i] = every[halves[i]!]!;
  return floats;
}

/** A sign, 5 bits of exponent, 10 of fraction. */
function half(bits: number): number {
  const sign = bits >> 15 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (exponent ? (1024 + fraction) * 2 ** (exponent - 25) : fraction * 2 ** -24);
}

/** What is said to be JSON, as text. MicroPython would also take what is neither UTF-8 nor JSON. */
export function jsonText(bytes: Uint8Array, what = "the header"): string {
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new Error(`${what} is not UTF-8 text`);
  }
  try {
    JSON.parse(text);
  } catch (error) {
    throw new Error(`${what} is broken JSON (${error instanceof Error ? error.message : error})`);
  }
  return text;
}

/** A matrix that lies as [columns, rows], as [rows, columns]. */
function turned(values: Float32Array, rows: number, columns: number): Float32Array {
  const result = new Float32Array(values.length);
  for (let row = 0; row < rows; row++)
    for (let column = 0; column < columns; column++) result[row * columns + column] = values[column * rows + row]!;
  return result;
}

/** `whole`: what follows the step, with all rows of n-gram tables. */
export function writeModelFile(
  header: Partial<ModelHeader>,
  step: number,
  whole: Uint8Array<ArrayBuffer>,
): Promise<Uint8Array<ArrayBuffer>> {
  const stored = withStoredRows(header, whole);
  return writeState(stored.header, step, stored.body);
}

/** `body`: what follows the step. */
export async function writeState(header: object, step: number, body: Uint8Array<ArrayBuffer>): Promise<Uint8Array<ArrayBuffer>> {
  const state = new Uint8Array(STEP_BYTES + body.length);
  new DataView(state.buffer).setInt32(0, step, true);
  state.set(body, STEP_BYTES);
  const stated = { ...header, savedAt: new Date().toISOString(), sha256: await digest(state) };
  const head = new TextEncoder().encode(JSON.stringify(stated));
  const file = new Uint8Array(PREFIX_BYTES + head.length + state.length);
  file.set(new TextEncoder().encode("TGPT"));
  new DataView(file.buffer).setUint32(4, FILE_VERSION, true);
  new DataView(file.buffer).setUint32(8, head.length, true);
  file.set(head, PREFIX_BYTES);
  file.set(state, PREFIX_BYTES + head.length);
  return file;
}

/** A safetensors file; `body`: what stands behind the header. */
export function writeAdapterFile({ key, description, tensors }: AdapterHeader, body: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
  const told = JSON.stringify({ ...description, savedAt: new Date().toISOString() });
  const stated = JSON.stringify({ __metadata__: { [key]: told }, ...Object.fromEntries(tensors) });
  const head = new TextEncoder().encode(stated);
  const length = Math.ceil(head.length / 8) * 8; // so that floats begin at multiples of their size
  const file = new Uint8Array(8 + length + body.length).fill(" ".charCodeAt(0), 8, 8 + length);
  new DataView(file.buffer).setBigUint64(0, BigInt(length), true);
  file.set(head, 8);
  file.set(body, 8 + length);
  return file;
}
