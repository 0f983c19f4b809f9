// The mutants: what each shows of itself, and the ops that its fault may be in.
import recorded from "./mutants.json";
import type { Loss } from "./protocol";
import type { Sources } from "./sources";

export interface Mutant {
  name: string;
  symptom: string;
  degree: string;
  hints: string[];
  answer: string;
  op: string; // the function,
  path: string; // and its file
  patch: string;
}

export function mutantsIn({ mutants }: Sources): Mutant[] {
  return Object.entries(mutants).map(([name, patch]) => {
    const lines = patch.slice(0, patch.indexOf("--- ")).trim().split("\n");
    const said = (kind: string): string[] =>
      lines.filter((line) => line.startsWith(`${kind}: `)).map((line) => line.slice(kind.length + 2));
    const answer = said("Answer")[0]!;
    const [, op, path] = answer.match(/^(\w+) in ([\w/]+\.\w+)/)!;
    return { name, symptom: lines[0]!, degree: said("Degree")[0]!, hints: said("Hint"), answer, op: op!, path: path!, patch };
  });
}

// Ops without a fault in any mutant.
const INNOCENT: [op: string, path: string][] = [
  ["backward_mlp", "core/models/gpt.py"],
  ["cross_entropy", "kernels/cross_entropy.py"],
  ["draw_windows", "kernels/windows.py"],
  ["forward_block", "core/models/gpt.py"],
  ["gelu", "kernels/linear.py"],
  ["grad_norm", "kernels/grad_norm.py"],
  ["linear_backward_input", "kernels/linear.py"],
  ["muon", "kernels/muon.py"],
  ["qk_norm_backward", "kernels/qk_norm.py"],
  ["rotary", "kernels/rotary.py"],
  ["sample", "kernels/sample.py"],
  ["softcap_backward", "kernels/softcap.py"],
];

/** All that a reader can name, by file and op. */
export function suspects(mutants: Mutant[]): { op: string; path: string }[] {
  const all = [...mutants.map(({ op, path }) => [op, path]), ...INNOCENT].map(([op, path]) => `${path} ${op}`);
  return [...new Set(all)].sort().map((one) => ({ path: one.split(" ")[0]!, op: one.split(" ")[1]! }));
}

interface Run {
  losses: number[];
  written: string;
}
const runs = recorded.runs as Record<string, Run>;

/** As `python -m lab.mutants` recorded it. */
export function recordedRun(name: string): { rows: Loss[]; written: string } {
  const { losses, written } = runs[name]!;
  return { rows: losses.map((loss, i) => [i + 1, loss]), written };
}

export const recordedSteps = recorded.steps;

const KEPT = "tinygpt labs solved";

/** What this reader has solved, in this browser. */
export function solved(): string[] {
  try {
    const found: unknown = JSON.parse(localStorage.getItem(KEPT) ?? "[]");
    return Array.isArray(found) ? found.filter((one) => typeof one === "string") : [];
  } catch {
    return [];
  }
}

export function noteSolved(name: string): void {
  try {
    localStorage.setItem(KEPT, JSON.stringify([...new Set([...solved(), name])]));
  } catch {
    // A browser that keeps nothing shows it until the page is closed.
  }
}
