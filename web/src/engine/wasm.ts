// The WebAssembly engine: its inputs, outputs and state are views into the player's memory.
import { doubleOf, INIT, type Place, type Recipe, type StepMetrics } from "./contract.ts";
import { makePlayer, type Player, type PlayerOptions } from "./player.ts";
import { ReplayEngine } from "./replay.ts";

export class WasmEngine extends ReplayEngine {
  readonly name = "wasm";
  readonly metricsEvery = 1;
  readonly threads: number;
  readonly bytes: number;
  private readonly player: Player;
  private readonly recipe: Recipe;
  private metrics: StepMetrics[] = [];

  private constructor(recipe: Recipe, player: Player) {
    super(recipe);
    this.recipe = recipe;
    this.player = player;
    this.threads = player.threads;
    this.bytes = 4 * recipe.arena;
  }

  static async create(recipe: Recipe, options: PlayerOptions): Promise<WasmEngine> {
    const engine = new WasmEngine(recipe, await makePlayer(recipe, options));
    await engine.drawWeights();
    return engine;
  }

  protected async drawWeights(): Promise<void> {
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

  protected floats(name: string, size: number): Float32Array {
    return this.at(this.recipe.places[name]!, size);
  }

  protected ints(name: string, size: number): Int32Array {
    return new Int32Array(this.player.memory.buffer, this.player.arena + 4 * this.recipe.places[name]!, size);
  }

  run(mode: string): Promise<void> {
    return this.player.run(mode);
  }

  protected runFed(mode: string): Promise<void> {
    return this.player.run(mode);
  }

  protected async endStep(mode: string, step: number): Promise<void> {
    await this.player.run(mode);
    this.metrics.push({ step, loss: this.floats("loss", 1)[0]!, gradNorm: this.floats("norm", 1)[0]! });
  }

  async readMetrics(): Promise<StepMetrics[]> {
    const ready = this.metrics;
    this.metrics = [];
    return ready;
  }

  protected async losses(batches: number, feed: (batch: number) => void): Promise<Float32Array[]> {
    const all = [];
    for (let i = 0; i < batches; i++) {
      feed(i);
      await this.player.run("eval");
      all.push(this.floats("losses", this.recipe.batch * this.recipe.ctx).slice());
    }
    return all;
  }

  protected async logits(mode: string): Promise<Float32Array> {
    await this.player.run(mode);
    return this.floats("next_logits", 256).slice();
  }

  async take(name: string, start: number, size: number): Promise<Float32Array> {
    const values = new Float32Array(size);
    const base = this.recipe.places[name]!;
    this.eachMove(start, size, (flat, from, floats) => values.set(this.at(base + flat, floats), from));
    return values;
  }

  async put(name: string, start: number, values: Float32Array): Promise<void> {
    const base = this.recipe.places[name]!;
    this.eachMove(start, values.length, (flat, from, floats) =>
      this.at(base + flat, floats).set(values.subarray(from, from + floats)),
    );
  }

  async read(place: Place, floats: number): Promise<Uint8Array<ArrayBuffer>> {
    const { memory, arena } = this.player;
    return new Uint8Array(new Uint8Array(memory.buffer, arena + 4 * (place as number), 4 * floats));
  }

  async write(place: Place, bytes: Uint8Array<ArrayBuffer>): Promise<void> {
    const { memory, arena } = this.player;
    new Uint8Array(memory.buffer, arena + 4 * (place as number), bytes.length).set(bytes);
  }

  close(): void {
    this.player.close();
  }
}
