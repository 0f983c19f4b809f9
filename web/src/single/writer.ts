// Writes with a planned model, byte for byte as core does (core/write/sampler.py over core/engine/texts.py), without Python:
// tests/e2e/test_single_page.py holds the two together.
import {
  CHOICE_FIRST,
  CHOICE_SEED,
  CHOICE_TEMPERATURE,
  CHOICE_TOP_K,
  CHOICE_TOP_P,
  CHOICE_WORDS,
  CURSOR_OVER,
  CURSOR_WRITTEN,
  NO_NUMBER,
} from "../generated/constants.ts";
import type { Place, WritingPlan } from "../generated/protocol.ts";
import type { Player } from "../players/contract.ts";

const BLOCK = 16; // bytes to ask for at once, at most
const NEWLINE = 10;

export interface Choice {
  tokens: number;
  temperature: number;
  seed: number;
}

type Bytes = Uint8Array<ArrayBuffer>;

export class Writer {
  private readonly player: Player;
  private readonly plan: WritingPlan;
  private drawn = 0; // bytes of the window that were taken from the player

  constructor(player: Player, plan: WritingPlan) {
    this.player = player;
    this.plan = plan;
  }

  /** What follows the prompt, piece by piece. */
  async *text(prompt: Bytes, choice: Choice): AsyncGenerator<Bytes> {
    const { ctx } = this.plan;
    let seen = prompt.length ? prompt.slice(-ctx) : Uint8Array.of(NEWLINE);
    let [cached, written] = [0, 0];
    while (written < choice.tokens) {
      let made: Bytes;
      if (cached === 0 || cached >= ctx) {
        // Positions are absolute, so a full window restarts from its newer half.
        if (cached) seen = seen.slice(-((ctx >> 1) + 1));
        cached = seen.length;
        made = await this.read(seen, choice, written);
      } else {
        made = await this.grow(Math.min(BLOCK, choice.tokens - written, ctx - cached));
        cached += made.length;
      }
      if (made.length === 0) return;
      written += made.length;
      seen = Uint8Array.of(...seen, ...made).slice(-ctx);
      yield made;
    }
  }

  /** Reads a window, and draws the byte after it, which is byte number `first` of the text. */
  private async read(window: Bytes, { seed, temperature }: Choice, first: number): Promise<Bytes> {
    const words = new Int32Array(CHOICE_WORDS);
    words[CHOICE_SEED] = seed;
    words[CHOICE_FIRST] = first;
    words[CHOICE_TEMPERATURE] = bitsOf(temperature);
    words[CHOICE_TOP_P] = bitsOf(1);
    words[CHOICE_TOP_K] = 0;
    await this.write("prompt", [...window, ...new Array<number>(this.plan.ctx - window.length).fill(0)]);
    await this.write("row", [0]);
    await this.write("choice", [...words]);
    await this.write("position", [window.length - 1]);
    await this.write("cursor", [0, 0]);
    this.drawn = 0;
    await this.player.run(this.prefill(window.length), 1);
    return this.taken();
  }

  private async grow(count: number): Promise<Bytes> {
    await this.player.run("decode", count);
    return this.taken();
  }

  /** The shortest program that reads so many bytes. */
  private prefill(length: number): string {
    const rows = (mode: string): number => Number(mode.split("_")[1] ?? this.plan.ctx);
    const fitting = Object.keys(this.plan.playbook.programs).filter((mode) => mode.startsWith("prefill") && rows(mode) >= length);
    return fitting.reduce((best, mode) => (rows(mode) < rows(best) ? mode : best));
  }

  /** The bytes that are new in the ring. */
  private async taken(): Promise<Bytes> {
    const cursor = await this.ints("cursor");
    if (cursor[CURSOR_OVER] === NO_NUMBER) throw new Error("this model's numbers are NaN or infinite, so it cannot write");
    const [ring, before] = [await this.ints("written"), this.drawn];
    this.drawn = cursor[CURSOR_WRITTEN]!;
    return Uint8Array.from({ length: this.drawn - before }, (_, i) => ring[(before + i) % this.plan.room]!);
  }

  private place(name: string): Place[] {
    return [this.plan.exchanged[name]!];
  }

  private write(name: string, values: number[]): Promise<void> {
    return this.player.write(this.place(name), new Uint8Array(Int32Array.from(values).buffer));
  }

  private async ints(name: string): Promise<Int32Array> {
    return new Int32Array((await this.player.read(this.place(name))).buffer);
  }
}

function bitsOf(value: number): number {
  return new Int32Array(Float32Array.of(value).buffer)[0]!;
}
