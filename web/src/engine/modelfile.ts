// The bytes of a .tinygpt file and of an adapter's, see docs/format.md and docs/lora.md. What a file's front says is Python's; here floats are
// moved and checked.
import type { RunConfig } from "./protocol.ts";

const PREFIX = 12; // magic, version, length of the header
const STEP = 4;
const VERSION = 2;

/** core/tab/file.py: each text is JSON, but for the header, which is the file's own. */
export interface Reader {
  measure(request: string): string;
  front(request: string, header: string): string;
  alone(request: string, header: string): string;
  merging(config: string): string;
  merged_header(request: string): string;
}

/** What adapters are called, and the sha256 of the weights that they stand on. */
export interface AdapterName {
  name: string;
  baseSha256: string;
}

/** All that a file says, and where its floats lie. */
export interface Front {
  config: RunConfig;
  progress: { step: number; tokens_seen: number; loss: number | null; history: [step: number, loss: number][]; sample: string };
  leftOut: string; // a sentence on what was not understood, or nothing
  parameters: number;
  dtype: string; // of its weights: float32, float16, int8
  floatBytes: 2 | 4; // of each float in the file that is not scaled: float16 or float32
  arrays: number; // of the file: w, and what an optimizer kept
  slots: string[]; // the names of the latter
  vectors: number; // of the state: w, and what its optimizer keeps
  taken: number; // of the file's arrays so many, from the front, are the state's
  sha256: string; // of the state, or nothing
  /** Places of its arrays behind the header, in bytes, and in the model's order; where it is to be turned, to how many rows and columns; where
   *  its rows are scaled, how many they are. */
  pieces: Piece[];
  adapter: AdapterName | null; // null: it is a whole model's
  damaged: string; // what to say of another digest,
  notFinite: string; // and, behind its name, of a tensor with NaN in it
}

/** What a run has to know to go on from a file. */
export type Origin = Pick<Front, "config" | "progress" | "slots" | "adapter"> & Partial<Pick<Front, "dtype">>;

type Piece = [name: string, places: number[], offset: number, size: number, rows: number, columns: number, scaled: number];

/** A file that was found to be sound: its front, its digest and every float. */
export class ModelFile {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly front: Front;
  private readonly state: Uint8Array<ArrayBuffer>; // all that follows the header; a model's begins with its step

  private constructor(bytes: Uint8Array<ArrayBuffer>, front: Front, state: Uint8Array<ArrayBuffer>) {
    this.bytes = bytes;
    this.front = front;
    this.state = state;
  }

  static async open(bytes: Uint8Array<ArrayBuffer>, reader: Reader): Promise<ModelFile> {
    const { request, header, state } = parted(bytes, reader);
    const front = answer<Front>(reader.front(request, header));
    if (front.sha256 && front.sha256 !== (await digest(state))) throw new Error(front.damaged);
    const file = new ModelFile(bytes, front, state);
    file.requireFinite();
    return file;
  }

  get origin(): Origin {
    const { config, progress, slots, adapter, dtype } = this.front;
    return { config, progress, slots, adapter, dtype };
  }

  /** The state as our own files have it behind the step: w and the slots of each parameter, with zeros for those that it lacks. */
  body(): Uint8Array<ArrayBuffer> {
    return new Uint8Array(this.vectors(this.front.vectors, this.front.taken).buffer);
  }

  /** Weights in int8 as the file has them, in the model's order. */
  packed(): Uint8Array<ArrayBuffer> {
    const parts = this.front.pieces.toSorted((a, b) => a[2] - b[2]).map(([, [start], , size, , , scaled]) => {
      const length = scaled ? 4 * scaled + 4 * Math.ceil(size / 4) : 4 * size;
      return this.state.subarray(start!, start! + length);
    });
    const packed = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
    let at = 0;
    for (const part of parts) {
      packed.set(part, at);
      at += part.length;
    }
    return packed;
  }

  weights(): Float32Array<ArrayBuffer> {
    return this.vectors(1, 1);
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
    if (this.front.slots.length === 0) return this.bytes;
    const { request, header } = parted(this.bytes, reader);
    return writeModelFile(JSON.parse(reader.alone(request, header)), this.front.progress.step, new Uint8Array(this.weights().buffer));
  }

  private requireFinite(): void {
    const { arrays, pieces, notFinite } = this.front;
    for (const piece of pieces) {
      let zero = 0; // times anything but NaN and infinity
      for (let array = 0; array < arrays; array++) for (const value of this.floats(piece, array)) zero += 0 * value;
      if (zero !== 0) throw new Error(`${piece[0]} ${notFinite}`);
    }
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

/** A file's header and what follows it; `request` tells Python of the rest. */
function parted(bytes: Uint8Array<ArrayBuffer>, reader: Reader): { request: string; header: string; state: Uint8Array<ArrayBuffer> } {
  const size = bytes.length;
  const prefix = Array.from(bytes.subarray(0, PREFIX));
  const { start, length } = answer<{ start: number; length: number }>(reader.measure(JSON.stringify({ prefix, size })));
  const state = bytes.subarray(start + length);
  const step = Array.from(state.subarray(0, STEP));
  return { request: JSON.stringify({ prefix, step, size }), header: jsonText(bytes.subarray(start, start + length)), state };
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

function answer<T extends object>(text: string): T {
  const told = JSON.parse(text) as T | { error: string };
  if ("error" in told) throw new Error(told.error);
  return told;
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

async function digest(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  const made = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return Array.from(made, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** `body`: what stands behind the step. */
export async function writeModelFile(header: object, step: number, body: Uint8Array<ArrayBuffer>): Promise<Uint8Array<ArrayBuffer>> {
  const state = new Uint8Array(STEP + body.length);
  new DataView(state.buffer).setInt32(0, step, true);
  state.set(body, STEP);
  const stated = { ...header, savedAt: new Date().toISOString(), sha256: await digest(state) };
  const text = new TextEncoder().encode(JSON.stringify(stated));
  const file = new Uint8Array(PREFIX + text.length + state.length);
  file.set(new TextEncoder().encode("TGPT"));
  new DataView(file.buffer).setUint32(4, VERSION, true);
  new DataView(file.buffer).setUint32(8, text.length, true);
  file.set(text, PREFIX);
  file.set(state, PREFIX + text.length);
  return file;
}

/** As tab/session.py states the header of a file of adapters. */
export interface AdapterHeader {
  key: string; // of the metadata
  description: object;
  tensors: [name: string, entry: object][];
}

/** A safetensors file; `body`: what stands behind the header. */
export function writeAdapterFile({ key, description, tensors }: AdapterHeader, body: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
  const told = JSON.stringify({ ...description, savedAt: new Date().toISOString() });
  const stated = JSON.stringify({ __metadata__: { [key]: told }, ...Object.fromEntries(tensors) });
  const text = new TextEncoder().encode(stated);
  const length = Math.ceil(text.length / 8) * 8; // so that floats begin at multiples of their size
  const file = new Uint8Array(8 + length + body.length).fill(" ".charCodeAt(0), 8, 8 + length);
  new DataView(file.buffer).setBigUint64(0, BigInt(length), true);
  file.set(text, 8);
  file.set(body, 8 + length);
  return file;
}
