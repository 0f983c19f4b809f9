// Where a tensor is wrong, and in words.
import type { Comparison } from "./protocol";

/** How hot an entry is, from 0 (within the bound) to 1 (the worst, or no number). */
export function heats({ heat, bound }: Pick<Comparison, "heat" | "bound">): number[][] {
  const most = Math.max(bound, ...heat.flat().map((off) => off ?? 0));
  const range = Math.log(most / bound) || 1;
  return heat.map((row) =>
    row.map((off) => {
      if (off === null) return 1;
      return off <= bound ? 0 : 0.15 + 0.85 * (Math.log(off / bound) / range);
    }),
  );
}

const number = (value: number | null): string => (value === null ? "NaN or infinite" : value.toPrecision(6));

export function inWords({ what, output, shape, row, column, got, wanted, sizes, heat, bound, outside }: Comparison): string {
  const count = heat.flat().filter((off) => off === null || off > bound).length;
  const all = heat.flat().length;
  const place = shape.length > 1 ? `row ${row}, column ${column}` : `place ${row * heat[0]!.length + column}`;
  const said = Object.entries(sizes)
    .sort()
    .map(([name, size]) => `${name} = ${size}`);
  const where = `where ${said.join(", ")}`;
  const past = outside
    ? ` What follows ${output} in memory was overwritten${count ? "" : `, ${where}`}: a place past its end was written.`
    : "";
  if (outside && !count) return past.trim();
  const nan = got === null && outside !== undefined ? " What is never written stays NaN." : "";
  return `${output} is wrong in ${count} of ${all} places, ${where}. At ${place} (from 0) it is ${number(got)}, and by ${what} ${number(wanted)}.${nan}${past}`;
}

/** Which outputs are right in every comparison. */
export function verdicts(rows: Comparison[]): string {
  const outputs = [...new Set(rows.map(({ output }) => output))];
  const isWrong = (name: string): boolean => rows.some(({ output, right }) => output === name && !right);
  const right = outputs.filter((name) => !isWrong(name));
  return `${right.length ? `Right: ${right.join(", ")}. ` : ""}Wrong: ${outputs.filter(isWrong).join(", ")}.`;
}
