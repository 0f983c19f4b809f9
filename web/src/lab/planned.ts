// What became of a plan: its ops as lines that can be compared, and of each tensor in memory whether it is as it was.
import { diffArrays } from "diff";
import type { Planned, PlannedOp, PlannedSlot } from "./protocol";

export interface OpLine {
  mark: " " | "+" | "-";
  text: string;
  phase: string;
}

const tensors = (rows: PlannedOp["reads"]): string => rows.map(([name, shape]) => `${name}[${shape.join(",")}]`).join(", ");

const SHOWN = ["seed", "purpose", "start", "index", "std_high", "std_low", "bytes"]; // of no interest

/** An op as a line of a program: what it writes, the kernel, what it reads, its numbers. */
export function lineOf({ kernel, reads, writes, numbers }: PlannedOp): string {
  const said = Object.entries(numbers).filter(([name]) => !SHOWN.includes(name));
  const more = said.map(([name, value]) => `${name}=${value}`).join(" ");
  return `${tensors(writes)} = ${kernel}(${tensors(reads)}) ${more}`.trim();
}

/** The ops of both, in order. */
export function comparedOps(original: Planned, edit: Planned): OpLine[] {
  const [before, after] = [original, edit].map(({ ops }) => ops.map((op) => `${op.phase}\n${lineOf(op)}`));
  return diffArrays(before!, after!).flatMap(({ value, added, removed }) =>
    value.map((line): OpLine => {
      const [phase, text] = line.split("\n");
      return { mark: added ? "+" : removed ? "-" : " ", text: text!, phase: phase! };
    }),
  );
}

/** Lines with `context` of those around the changed ones; a number stands for how many are left out. */
export function folded(lines: OpLine[], context = 2): (OpLine | number)[] {
  const near = lines.map((_, i) => lines.slice(Math.max(0, i - context), i + context + 1).some(({ mark }) => mark !== " "));
  const found: (OpLine | number)[] = [];
  for (const [i, line] of lines.entries()) {
    if (near[i]) found.push(line);
    else if (typeof found.at(-1) === "number") found[found.length - 1] = (found.at(-1) as number) + 1;
    else found.push(1);
  }
  return found;
}

export interface Place extends PlannedSlot {
  is: "same" | "moved" | "new";
}

/** Tensors that live within a step, and where they are beside those of the original. */
export function places(original: Planned, edit: Planned): Place[] {
  const before = new Map(temporary(original).map((slot) => [slot.name, slot]));
  return temporary(edit).map((slot) => {
    const one = before.get(slot.name);
    const same = one && one.start - original.persistent === slot.start - edit.persistent && one.size === slot.size;
    return { ...slot, is: !one || one.size !== slot.size ? "new" : same ? "same" : "moved" };
  });
}

export const temporary = ({ slots }: Planned): PlannedSlot[] => slots.filter(({ kind }) => kind === "temp");

/** The names that are there no more. */
export function gone(original: Planned, edit: Planned): string[] {
  const there = new Set(temporary(edit).map(({ name }) => name));
  return temporary(original)
    .map(({ name }) => name)
    .filter((name) => !there.has(name));
}

export const kilobytes = (floats: number): string => `${Math.round((4 * floats) / 1000).toLocaleString("en")} kB`;

/** What changed, in a sentence or two. */
export function summary(original: Planned, edit: Planned): string {
  const lines = comparedOps(original, edit);
  const [more, fewer] = ["+", "-"].map((mark) => lines.filter((line) => line.mark === mark).length);
  const ops =
    more || fewer ? `Ops of the original that are gone or changed: ${fewer}; new or changed ones: ${more}` : "The list of ops is the same";
  const parameters =
    original.parameters === edit.parameters
      ? ""
      : ` ${edit.parameters.toLocaleString("en")} parameters instead of ${original.parameters.toLocaleString("en")}.`;
  const memory =
    original.arena === edit.arena
      ? ` Memory: ${kilobytes(edit.arena)}, as before.`
      : ` Memory: ${kilobytes(edit.arena)} instead of ${kilobytes(original.arena)}.`;
  return `${ops}.${parameters}${memory}`;
}
