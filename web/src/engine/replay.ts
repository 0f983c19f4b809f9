// What engines that replay a program have in common: feeding inputs, keeping the step, moving state.
// engines/replay.py in TypeScript. A subclass says where inputs are written, how a program runs, how floats move.
import type { DrivenEngine, Place, RunFacts, State, StepMetrics } from "./contract.ts";
import type { EngineName } from "./protocol.ts";

export abstract class ReplayEngine implements DrivenEngine {
  abstract readonly name: EngineName;
  abstract readonly threads: number;
  abstract readonly bytes: number;
  abstract readonly metricsEvery: number;
  protected readonly facts: RunFacts;
  private step = 0;
  private cached = 0; // rows of the KV cache that are filled
  private train = new Uint8Array(0);
  private val = new Uint8Array(0);

  protected constructor(facts: RunFacts) {
    this.facts = facts;
  }

  abstract describe(): string;
  abstract run(mode: string): Promise<void>;
  abstract readMetrics(): Promise<StepMetrics[]>;
  abstract take(name: string, start: number, size: number): Promise<Float32Array>;
  abstract put(name: string, start: number, values: Float32Array): Promise<void>;
  abstract read(place: Place, floats: number): Promise<Uint8Array<ArrayBuffer>>;
  abstract write(place: Place, bytes: Uint8Array<ArrayBuffer>): Promise<void>;
  abstract close(): void;

  /** Start values, for a new model. */
  protected abstract drawWeights(): Promise<void>;
  /** Where an input is written before the next program runs. */
  protected abstract ints(name: string, size: number): Int32Array;
  protected abstract floats(name: string, size: number): Float32Array;
  /** Runs a program on the inputs as they were written. */
  protected abstract runFed(mode: string): Promise<void>;
  /** The last program of a training step; it leaves the loss and the norm, which readMetrics gives later. */
  protected abstract endStep(mode: string, step: number): Promise<void>;
  /** The losses of all rows of each batch of windows, which `feed` writes to the inputs. */
  protected abstract losses(batches: number, feed: (batch: number) => void): Promise<Float32Array[]>;
  /** Runs a program that leaves logits. */
  protected abstract logits(mode: string): Promise<Float32Array>;

  loadCorpus(train: Uint8Array, val: Uint8Array): void {
    this.train = new Uint8Array(train);
    this.val = new Uint8Array(val);
  }

  /** Writes one batch of windows to the inputs; rows beyond the offsets repeat the first. */
  private loadWindows(corpus: Uint8Array, offsets: number[]): void {
    const { batch, ctx } = this.facts;
    const tokens = this.ints("tokens", batch * ctx);
    const targets = this.ints("targets", batch * ctx);
    for (let row = 0; row < batch; row++) {
      const offset = offsets[row] ?? offsets[0]!;
      if (!(offset >= 0 && offset < corpus.length - ctx))
        throw new Error(`a window of ${ctx + 1} bytes does not lie inside the corpus of ${corpus.length} bytes`);
      tokens.set(corpus.subarray(offset, offset + ctx), row * ctx);
      targets.set(corpus.subarray(offset + 1, offset + ctx + 1), row * ctx);
    }
  }

  async trainStep(step: number, rates: ArrayLike<number>, offsets: ArrayLike<number>): Promise<void> {
    const { batch, grad_accum } = this.facts;
    const rows = Array.from(offsets);
    if (rows.length !== batch * grad_accum)
      throw new Error(`a step takes ${batch * grad_accum} windows, not ${rows.length}`);
    this.floats("rates", 3).set(Array.from(rates));
    if (grad_accum === 1) {
      this.loadWindows(this.train, rows);
      await this.endStep("train", step);
    } else {
      for (let i = 0; i < grad_accum; i++) {
        this.loadWindows(this.train, rows.slice(i * batch, (i + 1) * batch));
        await this.runFed(i ? "accumulate" : "gradient");
      }
      await this.endStep("update", step);
    }
    this.step = step;
  }

  async evalLoss(offsets: ArrayLike<number>): Promise<number> {
    const { batch, ctx } = this.facts;
    const rows = Array.from(offsets);
    const part = (i: number): number[] => rows.slice(i * batch, (i + 1) * batch);
    const all = await this.losses(Math.ceil(rows.length / batch), (i) => this.loadWindows(this.val, part(i)));
    let total = 0;
    all.forEach((losses, i) => {
      for (const loss of losses.subarray(0, part(i).length * ctx)) total += loss;
    });
    return total / (rows.length * ctx);
  }

  async exportState(): Promise<State> {
    const { parameters } = this.facts;
    const step = this.step;
    const [w, m, v] = [await this.take("weights", 0, parameters), await this.take("m", 0, parameters), await this.take("v", 0, parameters)];
    return { step, w, m, v };
  }

  async importState({ step, w, m, v }: State): Promise<void> {
    const { parameters } = this.facts;
    if (w.length !== parameters)
      throw new Error(`the state has ${w.length} parameters, but this model has ${parameters}`);
    await this.put("weights", 0, w);
    await this.put("m", 0, m ?? new Float32Array(parameters));
    await this.put("v", 0, v ?? new Float32Array(parameters));
    this.step = step;
  }

  async restart(): Promise<void> {
    const zeros = new Float32Array(this.facts.parameters);
    for (const vector of ["weights", "m", "v"]) await this.put(vector, 0, zeros);
    await this.drawWeights();
    this.step = 0;
  }

  setStep(step: number): void {
    this.step = step;
  }

  /** Calls f(place in the flat vector, place in the stretch, floats) for a stretch of the model file's order. */
  protected eachMove(start: number, size: number, f: (flat: number, from: number, floats: number) => void): void {
    for (const [file, flat, length] of this.facts.moves) {
      const begin = Math.max(file, start);
      const end = Math.min(file + length, start + size);
      if (begin < end) f(flat + begin - file, begin - start, end - begin);
    }
  }

  async prefill(tokens: Uint8Array): Promise<Float32Array> {
    const { ctx } = this.facts;
    if (tokens.length < 1 || tokens.length > ctx)
      throw new Error(`a prompt must have 1 to ${ctx} bytes, not ${tokens.length}`);
    const prompt = this.ints("prompt", ctx);
    prompt.fill(0);
    prompt.set(tokens);
    return this.nextLogits("prefill", tokens.length);
  }

  async decode(token: number): Promise<Float32Array> {
    if (!(token >= 0 && token < 256)) throw new Error(`a token must be a byte, 0 to 255, not ${token}`);
    if (this.cached >= this.facts.ctx) throw new Error(`the context of ${this.facts.ctx} bytes is full; prefill again`);
    this.ints("prompt", 1)[0] = token;
    return this.nextLogits("decode", this.cached + 1);
  }

  private async nextLogits(mode: string, cached: number): Promise<Float32Array> {
    this.ints("position", 1)[0] = cached - 1;
    const logits = await this.logits(mode);
    this.cached = cached;
    return logits;
  }
}
