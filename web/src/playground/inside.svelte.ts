// What is looked at inside the model, and what was seen last; run.svelte.ts passes the worker's answers on.
import type { FromWorker, Looked, Origins, SavedFile, ToWorker } from "../engine/protocol";

type Answer = Extract<FromWorker, { type: "looked" | "unseen" | "traced" | "untraced" }>;

const FIRST_TEXT = "But soft, what light through yonder window breaks? It is the east, and ";

const REST = 9; // times as long as an answer took, before the next is asked for unbidden

export class Inside {
  text = $state(FIRST_TEXT);
  tensor = $state(""); // that is watched
  scales = $state<Record<string, number>>({}); // of parts that do not count as they are
  shading = $state<"loss" | "attention" | "origins">("loss"); // what the colours of the text show
  seen = $state.raw<Looked | null>(null);
  fault = $state(""); // why nothing newer was seen
  /** The byte that is chosen, among those that are looked into. */
  at = $state(0);
  /** What of the text stands in the one that was learnt from, and what that is called; null: not asked, or not known yet. */
  origins = $state.raw<(Origins & { text: Uint8Array; source: string }) | null>(null);
  untraced = $state(""); // why it is not known
  layer = $state(0);
  head = $state(0);

  private readonly send: (message: ToWorker) => void;
  private readonly file: () => SavedFile | null;
  private known: SavedFile | null = null; // the file that the worker has
  private waiting = false;
  private again = false;
  private asked = 0; // ms, when
  private answered = 0;
  private took = 0;
  private source = ""; // the name of the text that is searched
  private whole = true; // whether all parts count as they are in what is under way
  private plain = $state.raw<Looked | null>(null); // what was seen last with all parts

  constructor(send: (message: ToWorker) => void, file: () => SavedFile | null) {
    this.send = send;
    this.file = file;
  }

  /** The mean loss, and where parts are changed that of the same model as it is, if it is known. */
  get losses(): { now: number; plain: number | null } | null {
    const { seen, plain } = this;
    if (!seen) return null;
    const same = plain && plain !== seen && plain.step === seen.step && sameBytes(plain.text, seen.text);
    return { now: mean(seen.losses), plain: same ? mean(plain.losses) : null };
  }

  /** Ask for what is to be seen now; while an answer is under way, behind it. */
  look(): void {
    if (this.waiting) {
      this.again = true;
      return;
    }
    this.waiting = true;
    this.asked = performance.now();
    const file = this.file();
    const scales = Object.entries(this.scales).filter(([, factor]) => factor !== 1);
    this.whole = scales.length === 0;
    const given = file && file !== this.known ? { file } : {};
    this.known = file;
    this.send({ type: "look", text: new TextEncoder().encode(this.text), scales, tensor: this.tensor, ...given });
  }

  /** Look again, for the model has learnt since; but let it learn for most of the time. */
  refresh(): void {
    if (!this.waiting && performance.now() - this.answered > REST * this.took) this.look();
  }

  /** Search for the text in the part of a corpus that was learnt from. */
  trace(corpus: Uint8Array<ArrayBuffer> | string, source: string, valFraction: number): void {
    this.source = source;
    this.send({ type: "trace", text: new TextEncoder().encode(this.text), corpus, valFraction });
  }

  take(answer: Answer): void {
    if (answer.type === "traced" || answer.type === "untraced") {
      this.origins = answer.type === "traced" ? { ...answer, source: this.source } : null;
      this.untraced = answer.type === "traced" ? "" : answer.message;
      return;
    }
    this.waiting = false;
    this.answered = performance.now();
    this.took = this.answered - this.asked;
    if (answer.type === "looked") {
      this.show(answer);
    } else {
      this.fault = answer.message;
      this.known = null;
    }
    if (!this.again) return;
    this.again = false;
    this.look();
  }

  private show(seen: Looked): void {
    if (this.whole) this.plain = seen;
    const moved = this.seen === null || this.seen.text.length - this.seen.first !== seen.text.length - seen.first;
    this.seen = seen;
    this.fault = "";
    if (moved) this.at = seen.text.length - seen.first - 1;
    this.layer = Math.min(this.layer, Math.max(0, seen.attention.length - 1));
    this.head = Math.min(this.head, Math.max(0, seen.heads - 1));
    if (!seen.tensors.includes(this.tensor)) this.tensor = "";
    const gone = Object.keys(this.scales).filter((part) => !seen.parts.includes(part));
    for (const part of gone) delete this.scales[part];
  }

  /** The worker is gone. */
  forget(): void {
    this.waiting = this.again = false;
    this.known = null;
  }
}

function mean(values: Float32Array): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

function sameBytes(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((byte, i) => byte === b[i]);
}
