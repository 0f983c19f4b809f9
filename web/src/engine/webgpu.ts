// The WebGPU engine: a step is one write of its inputs and one submit; losses are read later, many at once.
import { doubleOf, type GpuPlace, type GpuRecipe, INIT, type Place, type StepMetrics } from "./contract.ts";
import type { Gpu } from "./gpu.ts";
import { GpuPlayer, type Piece } from "./gpuplayer.ts";
import { type KernelSource, makeDraw } from "./player.ts";
import { adapterLabel } from "./protocol.ts";
import { ReplayEngine } from "./replay.ts";
import type { ShaderSource } from "./shaders.ts";
import { size } from "./units.ts";

const SLOTS = 64; // steps whose metrics the ring holds
const MOST_STEPS = 32; // between two readings
const BETWEEN_READINGS = 100; // ms
const READ_AT_ONCE = 2 ** 24; // floats of a state
const INPUTS = ["tokens", "targets", "rates", "prompt", "position"];
const VECTORS = ["weights", "m", "v"];

export interface WebGpuOptions {
  kernels: KernelSource; // the WebAssembly ones: start values are drawn there
  shaders: ShaderSource;
  onProgress?: (made: number, of: number) => void; // kernels compiled
}

export class WebGpuEngine extends ReplayEngine {
  readonly name = "webgpu";
  readonly threads = 1;
  readonly bytes: number;
  readonly player: GpuPlayer;
  private readonly recipe: GpuRecipe;
  private readonly kernels: KernelSource;
  private readonly ring: GPUBuffer; // loss and norm of step after step
  private readonly fed: { offset: number; host: ArrayBuffer }; // the inputs as they are written, all together
  private pending: number[] = []; // steps in the ring, oldest first
  private metrics: StepMetrics[] = []; // read already, as the ring was full
  private every = 1;
  private since = 0; // when the oldest pending step was handed over

  private constructor(recipe: GpuRecipe, player: GpuPlayer, kernels: KernelSource) {
    super(recipe);
    this.recipe = recipe;
    this.kernels = kernels;
    this.player = player;
    this.bytes = player.bytes;
    this.ring = player.gpu.device.createBuffer({ size: 8 * SLOTS, usage: GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST });
    const places = INPUTS.map((name) => recipe.places[name]).filter((place) => place !== undefined);
    const offset = Math.min(...places.map(([, at]) => at));
    const end = Math.max(...places.map(([, at, floats]) => at + 4 * floats));
    this.fed = { offset, host: new ArrayBuffer(places.length ? end - offset : 0) };
  }

  /** The engine owns the GPU from here on: it is closed with it, or when it cannot be made. */
  static async create(gpu: Gpu, recipe: GpuRecipe, options: WebGpuOptions): Promise<WebGpuEngine> {
    try {
      const player = await GpuPlayer.create(gpu, recipe, options.shaders, options.onProgress);
      const engine = new WebGpuEngine(recipe, player, options.kernels);
      await engine.drawWeights();
      return engine;
    } catch (error) {
      gpu.close();
      throw error;
    }
  }

  protected async drawWeights(): Promise<void> {
    const { draws, fills, seed } = this.recipe;
    if (draws.length) {
      const draw = await makeDraw(Math.max(...draws.map(([, size]) => size)), this.kernels);
      for (const [flat, size, index, high, low] of draws)
        await this.writeFlat("weights", flat, draw(size, seed, INIT, index, doubleOf(high, low)));
    }
    for (const [flat, size, high, low] of fills)
      await this.writeFlat("weights", flat, new Float32Array(size).fill(doubleOf(high, low)));
  }

  describe(): string {
    return `WebGPU, ${adapterLabel(this.player.gpu.info)}, ${size(this.bytes)}`;
  }

  get metricsEvery(): number {
    return this.every;
  }

  protected ints(name: string, size: number): Int32Array {
    return new Int32Array(this.fed.host, this.recipe.places[name]![1] - this.fed.offset, size);
  }

  protected floats(name: string, size: number): Float32Array {
    return new Float32Array(this.fed.host, this.recipe.places[name]![1] - this.fed.offset, size);
  }

  protected async runFed(mode: string, after?: (encoder: GPUCommandEncoder) => void): Promise<void> {
    await this.player.write(this.recipe.inputs, this.fed.offset, new Uint8Array(this.fed.host));
    await this.player.submit(mode, after);
  }

  /** Runs a program on what lies in the buffers. */
  run(mode: string): Promise<void> {
    return this.player.submit(mode);
  }

  protected async endStep(mode: string, step: number): Promise<void> {
    if (this.pending.length === SLOTS) this.metrics.push(...(await this.drain()));
    if (this.pending.length === 0) this.since = performance.now();
    const at = 8 * this.pending.length;
    await this.runFed(mode, (encoder) => {
      this.player.copyTo(this.ring, at, this.piece("loss", 1), encoder);
      this.player.copyTo(this.ring, at + 4, this.piece("norm", 1), encoder);
    });
    this.pending.push(step);
  }

  async readMetrics(): Promise<StepMetrics[]> {
    const ready = [...this.metrics, ...(await this.drain())];
    this.metrics = [];
    return ready;
  }

  /** Waits for the steps in the ring. How long they took says how many may pass until the next reading. */
  private async drain(): Promise<StepMetrics[]> {
    if (this.pending.length === 0) return [];
    const steps = this.pending;
    this.pending = [];
    const bytes = 8 * steps.length;
    const read = await this.player.collect(bytes, (target, encoder) =>
      encoder.copyBufferToBuffer(this.ring, 0, target, 0, bytes),
    );
    const took = (performance.now() - this.since) / steps.length;
    this.every = Math.max(1, Math.min(MOST_STEPS, Math.round(BETWEEN_READINGS / Math.max(took, 0.1))));
    const values = new Float32Array(read);
    return steps.map((step, i) => ({ step, loss: values[2 * i]!, gradNorm: values[2 * i + 1]! }));
  }

  private piece(name: string, floats: number): Piece {
    const [buffer, offset] = this.recipe.places[name]!;
    return { buffer, offset, size: 4 * floats };
  }

  protected async losses(batches: number, feed: (batch: number) => void): Promise<Float32Array[]> {
    const { batch, ctx } = this.recipe;
    const piece = this.piece("losses", batch * ctx);
    const size = batches * piece.size;
    const kept = this.player.gpu.device.createBuffer({ size, usage: GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST });
    for (let i = 0; i < batches; i++) {
      feed(i);
      await this.runFed("eval", (encoder) => this.player.copyTo(kept, i * piece.size, piece, encoder));
    }
    const read = await this.player.collect(size, (target, encoder) => encoder.copyBufferToBuffer(kept, 0, target, 0, size));
    kept.destroy();
    return Array.from({ length: batches }, (_, i) => new Float32Array(read, i * piece.size, batch * ctx));
  }

  protected async logits(mode: string): Promise<Float32Array> {
    await this.runFed(mode);
    return new Float32Array(await this.player.read([this.piece("next_logits", 256)]));
  }

  /** Calls f(buffer, offset in bytes, place in the stretch, floats) for a stretch of the weights or a moment. */
  private eachSegment(name: string, flat: number, size: number, f: (buffer: number, offset: number, from: number, floats: number) => void): void {
    const vector = VECTORS.indexOf(name);
    if (vector < 0) throw new Error(`there is no vector '${name}' over all parameters`);
    for (const [start, length, ...buffers] of this.recipe.segments) {
      const begin = Math.max(start, flat);
      const end = Math.min(start + length, flat + size);
      if (begin < end) f(buffers[vector]!, 4 * (begin - start), begin - flat, end - begin);
    }
  }

  private async writeFlat(name: string, flat: number, values: Float32Array<ArrayBuffer>): Promise<void> {
    const writes: Promise<void>[] = [];
    this.eachSegment(name, flat, values.length, (buffer, offset, from, floats) =>
      writes.push(this.player.write(buffer, offset, values.subarray(from, from + floats))),
    );
    await Promise.all(writes);
  }

  async take(name: string, start: number, size: number): Promise<Float32Array> {
    const values = new Float32Array(size);
    for (let at = 0; at < size; at += READ_AT_ONCE) {
      const part = Math.min(READ_AT_ONCE, size - at);
      const moves: { piece: Piece; from: number }[] = [];
      this.eachMove(start + at, part, (flat, from, floats) =>
        this.eachSegment(name, flat, floats, (buffer, offset, inside, count) =>
          moves.push({ piece: { buffer, offset, size: 4 * count }, from: from + inside }),
        ),
      );
      moves.sort((a, b) => a.from - b.from); // together they are the whole stretch
      values.set(new Float32Array(await this.player.read(moves.map(({ piece }) => piece))), at);
    }
    return values;
  }

  async put(name: string, start: number, values: Float32Array): Promise<void> {
    const floats = values as Float32Array<ArrayBuffer>;
    const stretches: [flat: number, from: number, size: number][] = [];
    this.eachMove(start, values.length, (...stretch) => stretches.push(stretch));
    for (const [flat, from, size] of stretches) await this.writeFlat(name, flat, floats.subarray(from, from + size));
  }

  async read(place: Place, floats: number): Promise<Uint8Array<ArrayBuffer>> {
    const [buffer, offset] = place as GpuPlace;
    return new Uint8Array(await this.player.read([{ buffer, offset, size: 4 * floats }]));
  }

  async write(place: Place, bytes: Uint8Array<ArrayBuffer>): Promise<void> {
    const [buffer, offset] = place as GpuPlace;
    await this.player.write(buffer, offset, bytes);
  }

  /** Nanoseconds of each dispatch of a program; what it changes is changed. */
  profile(mode: string): Promise<Float64Array<ArrayBuffer>> {
    return this.player.profile(mode);
  }

  close(): void {
    this.player.close();
  }
}
