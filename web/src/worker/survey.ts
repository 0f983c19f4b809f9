// What a text is like: tinygpt/data/survey.py counts the same, of the site's own texts.
import type { Survey } from "../generated/protocol.ts";

export const SURVEYED = 8_000_000; // bytes, from the front
const STRETCH = 24; // bytes
const WORDS_SHOWN = 12;
const WORD = /[\p{L}\p{Nl}\p{No}]+(?:['’][\p{L}\p{Nl}\p{No}]+)*/gu;

export function survey(text: Uint8Array): Survey {
  const counts = new Map<string, number>();
  let words = 0;
  for (const [word] of new TextDecoder().decode(text).toLowerCase().matchAll(WORD)) {
    counts.set(word, (counts.get(word) ?? 0) + 1);
    words += 1;
  }
  const common = [...counts].sort((one, other) => other[1] - one[1]).slice(0, WORDS_SHOWN);
  return { surveyed: text.length, different: new Set(text).size, words, vocabulary: counts.size, common, repeats: repeats(text) };
}

/** Of all stretches of so many bytes, the share that stood in the text before. */
function repeats(text: Uint8Array): number {
  const stretches = text.length - STRETCH + 1;
  if (stretches < 1) return 0;
  const slots = 2 ** Math.ceil(Math.log2(2 * stretches + 2));
  const seen = new Int32Array(2 * slots); // two hashes of each: one alone would meet its like now and then
  const first = new Rolling(31);
  const second = new Rolling(0x01000193);
  let found = 0;
  for (let end = 0; end < text.length; end++) {
    const gone = end >= STRETCH ? text[end - STRETCH]! : 0;
    const one = first.push(text[end]!, gone) || 1; // 0: nothing there
    const other = second.push(text[end]!, gone);
    if (end < STRETCH - 1) continue;
    let slot = (Math.imul(one ^ (other >>> 15), 0x9e3779b1) >>> 0) % slots;
    while (seen[2 * slot] !== 0 && (seen[2 * slot] !== one || seen[2 * slot + 1] !== other)) slot = (slot + 1) % slots;
    if (seen[2 * slot] !== 0) found += 1;
    else {
      seen[2 * slot] = one;
      seen[2 * slot + 1] = other;
    }
  }
  return found / stretches;
}

/** A hash of the last STRETCH bytes. */
class Rolling {
  private value = 0;
  private readonly factor: number;
  private readonly out: number;

  constructor(factor: number) {
    this.factor = factor;
    let out = 1;
    for (let i = 0; i < STRETCH; i++) out = Math.imul(out, factor);
    this.out = out;
  }

  push(byte: number, gone: number): number {
    this.value = (Math.imul(this.value, this.factor) + byte + 1 - Math.imul(this.out, gone ? gone + 1 : 0)) | 0;
    return this.value;
  }
}
