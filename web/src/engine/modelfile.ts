// The bytes of a .tinygpt file, see docs/format.md. What the header says is Python's; here are the bytes around it.
import type { RunFacts, State } from "./contract.ts";

const PREFIX = 12; // magic, version, length of the header
const VERSION = 2;

interface Entry {
  name: string;
  shape: number[];
}

type ModelShape = Pick<RunFacts, "parameters" | "moves">;

export interface ModelFile {
  header: Record<string, unknown>;
  step: number;
  state: Uint8Array; // behind the step
}

/** The state as a file holds it: the step, then w, m and v of each parameter. */
export function stateBytes(recipe: ModelShape, { step, w, m, v }: State): Uint8Array<ArrayBuffer> {
  const vectors = m && v ? [w, m, v] : [w];
  const floats = new Float32Array(1 + vectors.length * w.length);
  new DataView(floats.buffer).setInt32(0, step, true);
  let at = 1;
  for (const [offset, , size] of inFileOrder(recipe))
    for (const vector of vectors) {
      floats.set(vector.subarray(offset, offset + size), at);
      at += size;
    }
  return new Uint8Array(floats.buffer);
}

function inFileOrder(recipe: ModelShape): RunFacts["moves"] {
  return [...recipe.moves].sort((a, b) => a[0] - b[0]);
}

export async function writeModelFile(header: Record<string, unknown>, state: Uint8Array<ArrayBuffer>): Promise<Uint8Array<ArrayBuffer>> {
  const digest = await crypto.subtle.digest("SHA-256", state);
  const sha256 = Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("");
  const text = new TextEncoder().encode(JSON.stringify({ ...header, savedAt: new Date().toISOString(), sha256 }));
  const file = new Uint8Array(PREFIX + text.length + state.length);
  file.set(new TextEncoder().encode("TGPT"));
  new DataView(file.buffer).setUint32(4, VERSION, true);
  new DataView(file.buffer).setUint32(8, text.length, true);
  file.set(text, PREFIX);
  file.set(state, PREFIX + text.length);
  return file;
}

export function readModelFile(file: Uint8Array): ModelFile {
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  const magic = new TextDecoder().decode(file.subarray(0, 4));
  if (magic !== "TGPT" || file.length < PREFIX) throw new Error("this is no .tinygpt file: it does not start with 'TGPT'");
  const version = view.getUint32(4, true);
  if (version !== 1 && version !== VERSION)
    throw new Error(`the file's version ${version} is unknown; this page reads 1 and ${VERSION}`);
  const end = PREFIX + view.getUint32(8, true);
  if (end + 4 > file.length) throw new Error("the file ends within its header");
  let header: unknown;
  try {
    header = JSON.parse(new TextDecoder().decode(file.subarray(PREFIX, end)));
  } catch {
    throw new Error("the file's header is no JSON");
  }
  if (typeof header !== "object" || header === null || Array.isArray(header)) throw new Error("the file's header is no object");
  return { header: header as ModelFile["header"], step: view.getInt32(end, true), state: file.subarray(end + 4) };
}

/** The file's tensors as an engine takes them, once they agree with the recipe and with the file's own digest. */
export async function stateOf({ header, step, state }: ModelFile, recipe: ModelShape): Promise<State> {
  const vectors = [3, 1].find((count) => state.length === 4 * count * recipe.parameters);
  if (!vectors)
    throw new Error(`the file has ${state.length} bytes of state, which do not fit a model of ${recipe.parameters} parameters`);
  const sizes = inFileOrder(recipe);
  const manifest = header.manifest as Entry[] | undefined;
  if (manifest && manifest.length !== sizes.length)
    throw new Error(`the file lists ${manifest.length} tensors, but its model has ${sizes.length}`);
  if (typeof header.sha256 === "string" && header.sha256) {
    const whole = new Uint8Array(4 + state.length);
    new DataView(whole.buffer).setInt32(0, step, true);
    whole.set(state, 4);
    const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", whole));
    const found = Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
    if (found !== header.sha256.toLowerCase()) throw new Error("the file's state does not match its sha256: it is damaged");
  }
  const floats = new Float32Array(state.slice().buffer);
  const made = Array.from({ length: vectors }, () => new Float32Array(recipe.parameters));
  let at = 0;
  sizes.forEach(([offset, , size], index) => {
    for (const vector of made) {
      const part = floats.subarray(at, at + size);
      vector.set(header.layout === "out_in" ? part : turned(part, manifest?.[index]), offset);
      at += size;
    }
  });
  if (!made.every((vector) => vector.every(Number.isFinite))) throw new Error("the file's state holds NaN or infinity");
  return { step, w: made[0]!, m: made[1] ?? null, v: made[2] ?? null };
}

/** A linear weight that lies as [in, out], as [out, in]. The original's files hold theirs so. */
function turned(values: Float32Array, entry: Entry | undefined): Float32Array {
  if (!entry) throw new Error("files of version 1 are not read here; convert it with: tinygpt convert");
  const linear = /(_proj|fc_in|fc_out)\.weight$/.test(entry.name);
  if (!linear) return values;
  const expanding = entry.name.endsWith("fc_in.weight");
  const contracting = entry.name.endsWith("fc_out.weight");
  const [long, short] = [Math.max(...entry.shape), Math.min(...entry.shape)];
  const [rows, cols] = expanding ? [long, short] : contracting ? [short, long] : [short, short]; // [out, in]
  const result = new Float32Array(values.length);
  for (let out = 0; out < rows!; out++) for (let i = 0; i < cols!; i++) result[out * cols! + i] = values[i * rows! + out]!;
  return result;
}
