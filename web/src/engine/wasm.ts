// The WebAssembly engine: feeds inputs to the player, reads outputs, moves state. engines/replay.py in TypeScript.
import { doubleOf, type Engine, type Recipe, type State, type StepMetrics } from "./contract.ts";
import { makePlayer, type Player, type PlayerOptions } from "./player.ts";

const INIT = 1; // core/rng.py: the stream of start values

export class WasmEngine implements Engine {
  readonly threads: number;
  readonly player: Player;
  private readonly recipe: Recipe;
  private step = 0;
  private cached = 0; // rows of the KV cache that are filled
  private metrics: StepMetrics[] = [];
  private train = new Uint8Array(0);
  private val = new Uint8Array(0);

  private constructor(recipe: Recipe, player: Player) {
    this.recipe = recipe;
    this.player = player;
    this.threads = player.threads;
  }

  static async create(recipe: Recipe, options: PlayerOptions): Promise<WasmEngine> {
    const engine = new WasmEngine(recipe, await makePlayer(recipe, options));
    engine.start();
    return engine;
  }

  private start(): void {
    for (const [place, size, index, high, low] of this.recipe.draws)
      this.player.draw(place, size, this.recipe.seed, INIT, index, doubleOf(high, low));
    for (const [place, size, high, low] of this.recipe.fills) this.at(place, size).fill(doubleOf(high, low));
  }

  describe(): string {
    return this.player.description;
  }

  /** Views into the arena. */
  private at(place: number, size: number): Float32Array {
    return new Float32Array(this.player.memory.buffer, this.player.arena + 4 * place, size);
  }

  private floats(name: string, size: number): Float32Array {
    return this.at(this.recipe.places[name]!, size);
  }

  private ints(name: string, size: number): Int32Array {
    return new Int32Array(this.player.memory.buffer, this.player.arena + 4 * this.recipe.places[name]!, size);
  }

  loadCorpus(train: Uint8Array, val: Uint8Array): void {
    this.train = new Uint8Array(train);
    this.val = new Uint8Array(val);
  }

  /** Writes one batch of windows to the inputs; `rows` beyond the offsets repeat the first. */
  private loadWindows(corpus: Uint8Array, offsets: number[]): void {
    const { batch, ctx } = this.recipe;
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
    const { batch, grad_accum } = this.recipe;
    const rows = Array.from(offsets);
    if (rows.length !== batch * grad_accum)
      throw new Error(`a step takes ${batch * grad_accum} windows, not ${rows.length}`);
    this.floats("rates", 3).set(Array.from(rates));
    for (let i = 0; i < grad_accum; i++) {
      this.loadWindows(this.train, rows.slice(i * batch, (i + 1) * batch));
      await this.player.run(grad_accum === 1 ? "train" : i ? "accumulate" : "gradient");
    }
    if (grad_accum > 1) await this.player.run("update");
    this.step = step;
    this.metrics.push({ step, loss: this.floats("loss", 1)[0]!, gradNorm: this.floats("norm", 1)[0]! });
  }

  async readMetrics(): Promise<StepMetrics[]> {
    const ready = this.metrics;
    this.metrics = [];
    return ready;
  }

  async evalLoss(offsets: ArrayLike<number>): Promise<number> {
    const { batch, ctx } = this.recipe;
    const rows = Array.from(offsets);
    let total = 0;
    for (let i = 0; i < rows.length; i += batch) {
      const part = rows.slice(i, i + batch);
      this.loadWindows(this.val, part);
      await this.player.run("eval");
      for (const loss of this.floats("losses", part.length * ctx)) total += loss;
    }
    return total / (rows.length * ctx);
  }

  async exportState(): Promise<State> {
    const [w, m, v] = ["weights", "m", "v"].map((name) => this.take(name, 0, this.recipe.parameters));
    return { step: this.step, w: w!, m: m!, v: v! };
  }

  async importState({ step, w, m, v }: State): Promise<void> {
    const { parameters } = this.recipe;
    if (w.length !== parameters)
      throw new Error(`the state has ${w.length} parameters, but this model has ${parameters}`);
    this.put("weights", 0, w);
    this.put("m", 0, m ?? new Float32Array(parameters));
    this.put("v", 0, v ?? new Float32Array(parameters));
    this.step = step;
  }

  setStep(step: number): void {
    this.step = step;
  }

  /** A copy of a stretch of the weights or a moment, in the order of the model file. */
  take(name: string, start: number, size: number): Float32Array {
    const values = new Float32Array(size);
    this.eachMove(name, start, size, (there, from) => values.set(there, from));
    return values;
  }

  put(name: string, start: number, values: Float32Array): void {
    this.eachMove(name, start, values.length, (there, from) => there.set(values.subarray(from, from + there.length)));
  }

  /** Calls f(floats of the arena, their place in the stretch). */
  private eachMove(name: string, start: number, size: number, f: (there: Float32Array, from: number) => void): void {
    const base = this.recipe.places[name]!;
    for (const [file, flat, length] of this.recipe.moves) {
      const begin = Math.max(file, start);
      const end = Math.min(file + length, start + size);
      if (begin < end) f(this.at(base + flat + begin - file, end - begin), begin - start);
    }
  }

  async prefill(tokens: Uint8Array): Promise<Float32Array> {
    const { ctx } = this.recipe;
    if (tokens.length < 1 || tokens.length > ctx)
      throw new Error(`a prompt must have 1 to ${ctx} bytes, not ${tokens.length}`);
    const prompt = this.ints("prompt", ctx);
    prompt.fill(0);
    prompt.set(tokens);
    return this.nextLogits("prefill", tokens.length);
  }

  async decode(token: number): Promise<Float32Array> {
    if (!(token >= 0 && token < 256)) throw new Error(`a token must be a byte, 0 to 255, not ${token}`);
    if (this.cached >= this.recipe.ctx) throw new Error(`the context of ${this.recipe.ctx} bytes is full; prefill again`);
    this.ints("prompt", 1)[0] = token;
    return this.nextLogits("decode", this.cached + 1);
  }

  private async nextLogits(mode: string, cached: number): Promise<Float32Array> {
    this.ints("position", 1)[0] = cached - 1;
    await this.player.run(mode);
    this.cached = cached;
    return this.floats("next_logits", 256).slice();
  }

  close(): void {
    this.player.close();
  }
}
