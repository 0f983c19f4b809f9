// Looking into a model on a player of its own, with a copy of its weights: what trains it is not disturbed.
import { merged } from "./adapters.ts";
import { standing } from "./bases.ts";
import { Driven } from "./driven.ts";
import { ModelFile } from "./modelfile.ts";
import { parse, text as json } from "../generated/protocol.ts";
import type { Inside, InsideFacts, InsideRequest, Json, Moves, RunConfig, Scale, SeenPlaces } from "../generated/protocol.ts";
import { probabilities } from "../lib/seen.ts";
import type { Looked, Mattered, ModelBytes, SavedFile } from "./protocol.ts";
import { sentence } from "./answers.ts";
import type { Python } from "./python.ts";
import type { WorkerRun } from "./run.ts";

/** Into the model as it is; while training, at the next step. */
export interface Look {
  text: Uint8Array<ArrayBuffer>;
  scales: Scale[];
  tensor: string; // whose values are wanted, or nothing
  file?: ModelBytes; // whose model it is, from now on; absent: the worker's, or the last file's
}

/** Which earlier letters mattered to the guess behind byte number `at` of those that are looked into. */
export interface Mattering extends Omit<Look, "tensor"> {
  at: number;
}

type Floats = Float32Array<ArrayBuffer>;

interface Model {
  config: RunConfig;
  step: number;
  weights: Floats;
}

const SUBSTITUTES = [32, 101, 116]; // a space, e and t: what is hidden is each of two of them in turn
const HIDDEN = 64; // bytes, the last ones, that are hidden one after the other
const FORWARD = "inspect"; // the program that writes attention and lenses

export class Looker {
  private readonly python: Python;
  private readonly eyes = new Map<string, Eye>(); // by what they are for
  private file: Model | null = null;
  private facts: { config: Json<RunConfig>; told: InsideFacts } | null = null;

  constructor(python: Python) {
    this.python = python;
  }

  async answer(look: Look, run: WorkerRun | null): Promise<Looked> {
    if (look.file) this.file = await fileModel(look.file, this.python);
    const model = run ? await runModel(run) : this.file;
    if (!model) throw new Error("there is no model yet; train one or load one first");
    if (run) this.file = null;
    return this.look(look, model);
  }

  /** How much the guess behind byte number `at` changes when each byte before it is hidden: put another in its place, and see how much
   * of the probability moves. The mean over SUBSTITUTES, for those of the window up to `at`. */
  async mattered({ text, at, scales, file }: Mattering, run: WorkerRun | null, signal: AbortSignal): Promise<Mattered | null> {
    if (file) this.file = await fileModel(file, this.python);
    const model = run ? await runModel(run) : this.file;
    if (!model) throw new Error("there is no model yet; train one or load one first");
    const config = json({ model: model.config.model, train: model.config.train });
    const facts = this.factsOf(config);
    const length = Math.min(facts.window, text.length);
    const shown = text.subarray(text.length - length);
    const weights = moved(model.weights, this.python.inside.moves(config, length, json(scales)));
    const logits = facts.lenses.at(-1)!;
    const eye = await this.eye("matter", config, length, FORWARD, [logits], () => weights);
    const guess = async (bytes: Uint8Array): Promise<Float64Array> => {
      await eye.run(bytes);
      return probabilities((await eye.read()).get(logits)!.values, at);
    };
    const plain = await guess(shown);
    const first = Math.max(0, at + 1 - HIDDEN);
    const values = new Float32Array(at + 1);
    for (let place = first; place <= at; place++) {
      const others = SUBSTITUTES.filter((byte) => byte !== shown[place]).slice(0, 2);
      for (const byte of others) {
        if (signal.aborted) return null;
        const changed = shown.slice();
        changed[place] = byte;
        const now = await guess(changed);
        values[place]! += plain.reduce((sum, p, i) => sum + Math.abs(p - now[i]!), 0) / 2 / others.length;
      }
    }
    return { text, at, first, step: model.step, values };
  }

  private async look({ text, scales, tensor }: Look, model: Model): Promise<Looked> {
    const config = json({ model: model.config.model, train: model.config.train });
    const facts = this.factsOf(config);
    if (text.length < 2 || text.length > facts.longest)
      throw new Error(`a text to look at must have 2 to ${facts.longest} bytes, not ${text.length}`);
    const length = Math.min(facts.window, text.length);
    const first = text.length - length;
    const flowing = facts.flow.flatMap(([, stream, made]) => (made ? [stream, made] : [stream]));
    const named = [...facts.attention, ...facts.lenses, ...flowing];
    const weights = (size: number): Floats => moved(model.weights, this.python.inside.moves(config, size, json(scales)));
    const eye = await this.eye("text", config, length, FORWARD, named, weights);
    const losses = new Float32Array(text.length - 1);
    let scored = 0;
    for (const start of windowStarts(text.length, length)) {
      await eye.run(text.subarray(start, start + length + 1));
      const row = await eye.losses();
      losses.set(row.subarray(scored - start, Math.min(length, losses.length - start)), scored);
      scored = Math.min(losses.length, start + length);
    }
    if (first > 0) await eye.run(text.subarray(first));
    const seen = await eye.read();
    return {
      step: model.step,
      text,
      first,
      losses,
      heads: facts.attention.length ? Number(model.config.model["heads"]) : 0,
      attention: facts.attention.map((name) => seen.get(name)!.values),
      lenses: facts.lenses.map((name) => seen.get(name)!.values),
      flow: facts.flow.map(([part, stream, made]) => ({
        part,
        stream: seen.get(stream)!.values,
        made: made ? seen.get(made)!.values : null,
      })),
      parts: facts.parts,
      tensors: facts.tensors.map(([name]) => name),
      tensor: await this.tensor(tensor, facts, config, text.subarray(first), weights),
    };
  }

  /** Of the text's own gradient, where it is one. */
  private async tensor(
    name: string,
    facts: InsideFacts,
    config: Json<RunConfig>,
    shown: Uint8Array,
    weights: (size: number) => Floats,
  ): Promise<Looked["tensor"]> {
    const mode = facts.tensors.find(([known]) => known === name)?.[1];
    if (!mode) return null;
    const length = mode === FORWARD ? shown.length : shown.length - 1;
    const eye = await this.eye("tensor", config, length, mode, [name], weights);
    await eye.run(shown);
    return { name, ...(await eye.read()).get(name)! };
  }

  private factsOf(config: Json<RunConfig>): InsideFacts {
    if (this.facts?.config !== config) this.facts = { config, told: parse(sentence(() => this.python.inside.facts(config))) };
    return this.facts.told;
  }

  /** One that is planned for just this, with these weights. */
  private async eye(
    purpose: string,
    config: Json<RunConfig>,
    length: number,
    mode: string,
    tensors: string[],
    weights: (size: number) => Floats,
  ): Promise<Eye> {
    const request = json({ config: parse(config), length, mode, tensors });
    const before = this.eyes.get(purpose);
    this.eyes.delete(purpose);
    const eye = before?.request === request ? before : new Eye(this.python, request, length);
    await eye.take(weights(length));
    this.eyes.set(purpose, eye);
    return eye;
  }
}

async function fileModel(given: ModelBytes, python: Python): Promise<Model> {
  const file = await ModelFile.open(given.bytes, python.file);
  const { config, progress } = file.front;
  const own = file.weights();
  const weights = given.base ? merged(await standing(given, "", python.file), own, config, python.file) : own;
  return { config, step: progress.step, weights };
}

async function runModel(run: WorkerRun): Promise<Model> {
  const weights = await run.weights();
  const { config, progress } = run.stands();
  return { config, step: progress.step, weights };
}

/** Where windows begin, as tinygpt/engines/evaluation.py has them: each scores what is new to it, from at least half a window. */
function windowStarts(bytes: number, length: number): number[] {
  const last = Math.max(0, bytes - 1 - length);
  const starts = [];
  for (let start = 0; start < last; start += Math.max(1, length >> 1)) starts.push(start);
  return [...starts, last];
}

/** A plain model whose parts count for more, less or nothing, as a file. */
export async function scaledFile(bytes: ModelBytes["bytes"], scales: Scale[], python: Python): Promise<SavedFile> {
  const file = await ModelFile.open(bytes, python.file);
  const { config, progress } = file.front;
  const moves = python.inside.moves(json({ model: config.model, train: config.train }), Number(config.model["ctx"]), json(scales));
  const changed = await file.withWeights(moved(file.weights(), moves), python.file);
  return { bytes: changed, name: "scaled.tinygpt", step: progress.step };
}

/** A copy as tab/inside.py's moves say. */
function moved(weights: Floats, moves: Json<Moves>): Floats {
  const { scaled, kept } = parse(moves);
  const whole = scaled.length ? weights.slice() : weights;
  for (const [offset, rows, width, pitch, factor] of scaled)
    for (let row = 0; row < rows; row++)
      for (let at = offset + row * pitch; at < offset + row * pitch + width; at++) whole[at] = whole[at]! * factor;
  const result = new Float32Array(kept.reduce((sum, [begin, end]) => sum + end - begin, 0));
  let to = 0;
  for (const [begin, end] of kept) {
    result.set(whole.subarray(begin, end), to);
    to += end - begin;
  }
  return result;
}

/** A program on a player, for texts of one length. */
class Eye extends Driven {
  readonly request: Json<InsideRequest>;
  private readonly length: number;
  private readonly inside: Inside;
  private places: SeenPlaces = { losses: [], tensors: [] };
  private next: Uint8Array<ArrayBuffer> | null = null; // weights that the player does not have yet

  constructor(python: Python, request: Json<InsideRequest>, length: number) {
    super(null, { threads: 1 }, () => undefined);
    this.request = request;
    this.length = length;
    this.inside = sentence(() => python.inside.Inside(request));
  }

  async take(weights: Floats): Promise<void> {
    const bytes = new Uint8Array(weights.buffer);
    if (this.player) this.next = bytes;
    else this.places = parse(await this.told(this.inside.open(this, bytes)));
  }

  private async told<T>(call: Promise<T>): Promise<T> {
    try {
      return await call;
    } catch (error) {
      throw new Error(this.why(error));
    }
  }

  /** Bytes and the one behind them, which is 0 where there is none. */
  async run(bytes: Uint8Array): Promise<void> {
    const window = [...bytes, ...new Array<number>(this.length + 1 - bytes.length).fill(0)];
    await this.told(this.inside.run(json(window), this.next));
    this.next = null;
  }

  async losses(): Promise<Floats> {
    return new Float32Array((await this.player!.read(this.places.losses)).buffer);
  }

  async read(): Promise<Map<string, { shape: number[]; values: Floats }>> {
    const found = new Map<string, { shape: number[]; values: Floats }>();
    for (const [name, shape, places] of this.places.tensors) {
      const { buffer } = await this.player!.read(places);
      found.set(name, {
        shape,
        values: new Float32Array(
          buffer,
          0,
          shape.reduce((size, axis) => size * axis, 1),
        ),
      });
    }
    return found;
  }
}
