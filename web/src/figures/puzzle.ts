// The puzzle of chapter 9: places for tensors on a shelf. The checker says what the chapter's own says.

export interface Tensor {
  name: string;
  size: number;
  first: number; // the op that writes it
  last: number; // the last that reads it
}
export type Places = Record<string, number>;

export const TENSORS: Tensor[] = [
  { name: "x", size: 4, first: 0, last: 7 },
  { name: "a", size: 6, first: 1, last: 3 },
  { name: "b", size: 4, first: 2, last: 5 },
  { name: "h", size: 8, first: 4, last: 6 },
  { name: "dx", size: 4, first: 6, last: 8 },
  { name: "y", size: 2, first: 3, last: 4 },
];
export const OPS = 9;

export interface Conflict {
  one: string;
  other: string;
  op: number;
}

export function conflicts(places: Places): Conflict[] {
  return TENSORS.flatMap((one) =>
    TENSORS.filter((other) => one.name < other.name && meets(one, other, places)).map((other) => ({
      one: one.name,
      other: other.name,
      op: Math.max(one.first, other.first),
    })),
  );
}

function meets(one: Tensor, other: Tensor, places: Places): boolean {
  const [start, begin] = [places[one.name]!, places[other.name]!];
  const alive = one.first <= other.last && other.first <= one.last;
  return alive && start < begin + other.size && begin < start + one.size;
}

export function height(places: Places): number {
  return Math.max(...TENSORS.map(({ name, size }) => places[name]! + size));
}

/** What is alive at the busiest op: no plan is lower. */
export function least(): number {
  const alive = (op: number): number =>
    TENSORS.filter(({ first, last }) => first <= op && op <= last).reduce((sum, { size }) => sum + size, 0);
  return Math.max(...Array.from({ length: OPS }, (_, op) => alive(op)));
}
