// What a GPU says of a kernel that the reader wrote, in plain words, with the line of theirs.
import type { WriteLab } from "./sources";
import type { Trouble } from "./trouble";

// As tinygpt/labs/wgsl/lab.py has them: the kernel with the reader's lines, and the same with their loops watched.
export const YOURS = "yours.wgsl";
export const WATCHED = "watched.wgsl";

const linesOf = (text: string): number => text.split("\n").length - (text.endsWith("\n") || text === "" ? 1 : 0);

export function troubleInKernel(text: string, { before }: Pick<WriteLab, "before">, source: string): Trouble {
  const lost = /the GPU was lost/.test(text);
  if (lost) {
    const message =
      "The GPU gave up on this kernel. A loop without an end is the usual cause: look at what each loop counts, and check once more.";
    return { message };
  }
  const found = text.match(/(?:yours|watched)\.wgsl do not compile on this GPU: line (\d+): (.*)$/s);
  if (!found) {
    const built = text.match(/cannot be built for this GPU: (.*)$/s);
    return { message: built ? inWords(built[1]!) : sentence(text) };
  }
  const line = Number(found[1]) - linesOf(before);
  if (line < 1) return { message: `Above your lines: ${inWords(found[2]!)}` };
  if (line > linesOf(source)) return { message: below(found[2]!) };
  return { message: inWords(found[2]!), path: YOURS, line };
}

/** Of an error in the frame after the reader's lines, which they caused. */
function below(said: string): string {
  const [, missing] = said.match(UNRESOLVED) ?? [];
  if (missing) return `The kernel goes on with ${missing}, and your lines do not make it.`;
  return `Your lines do not fit what comes after them: ${inWords(said)}`;
}

const UNRESOLVED = /unresolved \w+(?: \w+)? '([^']*)'/;
const WORDS: [RegExp, (...found: string[]) => string][] = [
  [UNRESOLVED, (name) => `There is nothing called ${name} here.`],
  [/no matching (?:overload for )?(?:'?operator )?'?(\S+) ?\(([^)]*)\)/, (op, kinds) => `${op} does not take these kinds of numbers: ${kinds}.`],
  [/cannot assign '([^']*)' to '([^']*)'/, (given, wanted) => `${kind(given!)} cannot be put into ${kind(wanted!)}.`],
  [/cannot initialize .*'([^']*)' with value of type '([^']*)'/, (wanted, given) => `${kind(given!)} cannot be put into ${kind(wanted!)}.`],
  [/cannot assign to (?:let|value of type|'?let)/, () => "What let has made cannot be changed: make it with var."],
  [/redeclaration of '([^']*)'/, (name) => `The name ${name} is taken already: take another one, or change it without let or var.`],
  [/must only be called from uniform control flow/, () => "A barrier must be reached by all invocations: take it out of the if, or of the loop that some leave."],
  [/missing return/, () => "The function must return something: a return is missing."],
  [/^(?:expected|invalid|unterminated) ?.*/, () => ""],
]; // prettier-ignore

const kind = (name: string): string => `${/^[aeifu]/.test(name) ? "an" : "a"} ${name.replaceAll("vec4<f32>", "vec4f")}`;

function inWords(said: string): string {
  for (const [pattern, say] of WORDS) {
    const found = said.match(pattern);
    if (found) return capital(say(...found.slice(1)) || `WGSL cannot read this line: ${said.trim().replace(/\.$/, "")}.`);
  }
  return sentence(said);
}

const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);
const sentence = (text: string): string => capital(text.trim()) + (/[.!?]$/.test(text.trim()) ? "" : ".");
