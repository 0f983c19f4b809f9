// A model's parts in words, and what was changed about them.
import type { Scale } from "../worker/protocol";

/** "blocks.1.head.0" → "head 1 of layer 2". */
export function partTitle(part: string): string {
  const [, block, kind, head] = part.split(".");
  if (block === undefined) return part === "ngrams" ? "the n-grams" : part;
  const layer = `layer ${Number(block) + 1}`;
  if (kind === undefined) return layer;
  return `${{ attn: "the attention", mlp: "the MLP" }[kind] ?? `head ${Number(head) + 1}`} of ${layer}`;
}

/** Parts that do not count as they are: "without layer 2; the MLP of layer 1 × 0.5". */
export function changesInWords(scales: Scale[]): string {
  const off = scales.filter(([, factor]) => factor === 0).map(([part]) => partTitle(part));
  const scaled = scales.filter(([, factor]) => factor !== 0).map(([part, factor]) => `${partTitle(part)} × ${factor}`);
  return [...(off.length ? [`without ${joined(off)}`] : []), ...scaled].join("; ");
}

function joined(names: string[]): string {
  return names.length < 2 ? names.join() : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;
}
