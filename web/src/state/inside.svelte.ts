// What is looked at inside the model, and what was seen last.
import { textOf } from "../lib/bytes";
import { sentence } from "../lib/format";
import type { Looked, Mattered, Origins, SavedFile, Scale, Text } from "../worker/protocol";
import { Gone } from "../worker/remote";
import type { Calls } from "./connection";

const FIRST_TEXT = "But soft, what light through yonder window breaks? It is the east, and ";

const EXPLAINED = 256; // bytes before a letter, at most: as many as are looked into
const REST = 9; // times as long as an answer took, before the next is asked for unbidden

export class Inside {
  text = $state(FIRST_TEXT);
  tensor = $state(""); // that is watched
  scales = $state<Record<string, number>>({}); // of parts that do not count as they are
  shading = $state<"loss" | "attention" | "mattered" | "origins">("attention"); // what the colours of the text show
  seen = $state.raw<Looked | null>(null);
  fault = $state(""); // why nothing newer was seen
  /** The byte that is chosen, among those that are looked into. */
  at = $state(0);
  /** What of the text stands in the one that was learnt from, and what that is called; null: not asked, or not known yet. */
  origins = $state.raw<(Origins & { text: Uint8Array; source: string }) | null>(null);
  untraced = $state(""); // why it is not known
  /** What is chosen in the drawing: a part, "embedding", or "next": what comes of it. */
  part = $state("next");
  layer = $state(0);
  head = $state(0);
  /** How much each earlier byte mattered to the guess behind one; null: not asked. */
  mattered = $state.raw<Mattered | null>(null);
  weighing = $state(false); // it is being found out
  private waited: AbortController | null = null;
  private written: Uint8Array<ArrayBuffer> | null = null; // what a model wrote, whose last letter was asked about
  private unexplained = false; // it was not looked at yet

  private readonly calls: () => Calls | null;
  private readonly file: () => SavedFile | null;
  private known: SavedFile | null = null; // the file that the worker has
  private waiting = false;
  private again = false;
  private models = 0; // that came to hand: what is under way for one before is not shown
  private answered = 0;
  private took = 0;
  private plain = $state.raw<Looked | null>(null); // what was seen last with all parts

  constructor(calls: () => Calls | null, file: () => SavedFile | null) {
    this.calls = calls;
    this.file = file;
  }

  /** The mean loss, and where parts are changed that of the same model as it is, if it is known. */
  get losses(): { now: number; plain: number | null } | null {
    const { seen, before } = this;
    if (!seen) return null;
    return { now: mean(seen.losses), plain: before && mean(before.losses) };
  }

  /** What was seen of the same text and step with all parts as they are, where some are changed now. */
  get before(): Looked | null {
    const { seen, plain } = this;
    if (!seen || !plain || plain === seen || plain.step !== seen.step || !sameBytes(plain.text, seen.text)) return null;
    return plain;
  }

  /** Parts that do not count as they are. */
  get changed(): Scale[] {
    return Object.entries(this.scales).filter(([, factor]) => factor !== 1);
  }

  /** The text's bytes: as a model wrote them, as long as nobody has edited them. */
  private get bytes(): Uint8Array<ArrayBuffer> {
    const { written } = this;
    return written && textOf(Array.from(written)) === this.text ? written : new TextEncoder().encode(this.text);
  }

  /** Look at the last letter of what a model has written, with these parts of it changed, and find out what mattered to it. */
  explain(written: number[], scales: Scale[] = []): void {
    this.written = Uint8Array.from(written.slice(-EXPLAINED));
    this.text = textOf(Array.from(this.written));
    this.scales = Object.fromEntries(scales);
    this.unexplained = true;
  }

  /** One that is not there is taken for the last. */
  chooseHead(layer: number, head: number): void {
    [this.layer, this.head, this.shading, this.part] = [layer, head, "attention", `blocks.${layer}.attn`];
  }

  /** Find out which letters mattered to the guess behind the chosen one. */
  async matter(): Promise<void> {
    const calls = this.calls();
    if (!calls || !this.seen) return;
    this.waited?.abort();
    const own = (this.waited = new AbortController());
    this.weighing = true;
    const [{ text }, at, file, model] = [this.seen, this.at, this.file(), this.models];
    const given = file && file !== this.known ? { file } : {};
    try {
      const found = await calls.matter({ text, at, scales: this.changed, ...given }, { signal: own.signal });
      if (!found || own.signal.aborted || model !== this.models) return;
      this.mattered = found;
      this.shading = "mattered";
    } catch (error) {
      if (model === this.models && !(error instanceof Gone)) this.fault = (error as Error).message;
    } finally {
      if (this.waited === own) this.weighing = false;
    }
  }

  /** Ask for what is to be seen now; while an answer is under way, behind it. */
  async look(): Promise<void> {
    const calls = this.calls();
    if (!calls) return;
    if (this.waiting) {
      this.again = true;
      return;
    }
    this.waiting = true;
    const [asked, model, file] = [performance.now(), this.models, this.file()];
    const scales = this.changed;
    const given = file && file !== this.known ? { file } : {};
    this.known = file;
    try {
      const seen = await calls.look({ text: this.bytes, scales, tensor: this.tensor, ...given });
      if (model === this.models) this.show(seen, scales.length === 0);
    } catch (error) {
      this.known = null;
      if (model === this.models && !(error instanceof Gone)) this.fault = (error as Error).message;
    }
    this.waiting = false;
    this.answered = performance.now();
    this.took = this.answered - asked;
    if (!this.again) return;
    this.again = false;
    await this.look();
  }

  /** Look again, for the model has learnt since; but let it learn for most of the time. */
  refresh(): void {
    if (!this.waiting && performance.now() - this.answered > REST * this.took) void this.look();
  }

  /** Search for the text in the part of a corpus that was learnt from. */
  async trace(corpus: Text, source: string, valFraction: number): Promise<void> {
    const [text, model] = [this.bytes, this.models];
    try {
      const found = await this.calls()?.trace({ text, corpus, name: source, valFraction });
      if (!found || model !== this.models) return;
      this.origins = { ...found, text, source };
      this.untraced = "";
    } catch (error) {
      if (error instanceof Gone) return;
      this.origins = null;
      this.untraced = sentence((error as Error).message);
    }
  }

  /** `whole`: all parts count as they are. */
  private show(seen: Looked, whole: boolean): void {
    if (whole) this.plain = seen;
    const moved = this.seen === null || this.seen.text.length - this.seen.first !== seen.text.length - seen.first;
    this.seen = seen;
    this.fault = "";
    if (moved) this.at = seen.text.length - seen.first - 1;
    this.layer = Math.min(this.layer, Math.max(0, seen.attention.length - 1));
    this.head = Math.min(this.head, Math.max(0, seen.heads - 1));
    if (!seen.tensors.includes(this.tensor)) this.tensor = "";
    if (this.part !== "embedding" && !seen.flow.some(({ part }) => part === this.part)) this.part = "next";
    const gone = Object.keys(this.scales).filter((part) => !seen.parts.includes(part));
    for (const part of gone) delete this.scales[part];
    if (this.unexplained && this.written && sameBytes(seen.text, this.written)) {
      this.unexplained = false;
      this.at = Math.max(0, seen.text.length - seen.first - 2); // before the letter: there it was guessed
      void this.matter();
    }
  }

  /** Another model is current: what was seen of the one before is not shown under its name. */
  renew(): void {
    this.seen = this.plain = this.origins = this.mattered = null;
    this.waited?.abort();
    this.fault = this.untraced = "";
    this.models += 1;
  }
}

function mean(values: Float32Array): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

function sameBytes(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((byte, i) => byte === b[i]);
}
