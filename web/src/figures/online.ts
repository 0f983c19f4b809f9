// A softmax that is computed while the scores arrive, as chapter 12 has it: the state after each of them.

export interface State {
  top: number;
  sum: number;
  weighted: number;
  factor: number; // by which what was summed shrank
}

export function online(scores: number[], values: number[]): State[] {
  let [top, sum, weighted] = [-Infinity, 0, 0];
  return scores.map((score, at) => {
    const factor = score > top ? Math.exp(top - score) : 1;
    top = Math.max(top, score);
    const share = Math.exp(score - top);
    sum = sum * factor + share;
    weighted = weighted * factor + share * values[at]!;
    return { top, sum, weighted, factor: at === 0 ? 1 : factor };
  });
}
