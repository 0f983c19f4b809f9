// Whether what a reader typed is a question's answer, and what to say where it is not.

export interface Verdict {
  right: boolean;
  says: string;
}

/** How exactly a question wants to be answered. */
export function asked(answer: string): string {
  const decimals = decimalsOf(answer);
  if (Number(answer) === 0) return "a number, exactly";
  return decimals === 0
    ? "a whole number"
    : decimals === 1
      ? "one decimal is enough"
      : `${["", "", "two", "three"][decimals] ?? decimals} decimals are enough`;
}

/** A whole number has to be met; of others, what rounds to the answer is right, within 1.5 % of it. */
export function judge(typed: string, answer: string): Verdict {
  const right = Number(answer);
  const decimals = decimalsOf(answer);
  const leeway = decimals === 0 || right === 0 ? 0 : Math.min(0.5 * 10 ** -decimals, 0.015 * Math.abs(right)) * (1 + 1e-9);
  const read = readings(typed);
  if (read.length === 0) return { right: false, says: "Type a number, such as 12, -0.5 or 1/3." };
  if (read.some((value) => Math.abs(value - right) <= leeway)) return { right: true, says: "Right." };
  return { right: false, says: hint(read[0]!, right, decimals) };
}

function hint(value: number, right: number, decimals: number): string {
  if (right !== 0 && Math.abs(value + right) <= 0.015 * Math.abs(right)) return "The size is right, the sign is not.";
  const ratio = value / right;
  if (Math.abs(ratio - 1) < 0.06) return decimals === 0 ? "Close, but this one is exact." : "Close: look at the last digits.";
  const power = Math.log10(ratio);
  if (ratio > 0 && Math.abs(power - Math.round(power)) < 0.006) return "The digits are right, the decimal point is not.";
  if (Math.abs(ratio - 2) < 0.02 || Math.abs(ratio - 0.5) < 0.005) return "That is off by a factor of two.";
  if (right === 0)
    return Math.abs(value) < 1e-3 ? "Almost. Is it that, or exactly something?" : value > 0 ? "That is too large." : "That is too small.";
  return value > right ? "That is too large." : "That is too small.";
}

function decimalsOf(answer: string): number {
  return answer.split(".")[1]?.length ?? 0;
}

/** What may be meant: a comma is a decimal point or parts thousands; units are left out. */
function readings(typed: string): number[] {
  const plain = typed
    .trim()
    .replace(/[−–]/g, "-")
    .replace(/\*\*/g, "^")
    .replace(/[\s_'’]/g, "")
    .replace(/^[=≈~]/, "")
    .replace(/(?<=\d\.?)[a-df-z%]+[a-z/]*$/i, "");
  const ways = plain.includes(",")
    ? [plain.replaceAll(",", ""), ...(plain.match(/,/g)!.length === 1 ? [plain.replace(",", ".")] : [])]
    : [plain];
  return ways.map(value).filter((found) => found !== null);
}

const FUNCTIONS: Record<string, (value: number) => number> = {
  ln: Math.log,
  log: Math.log, // as Python has it
  log2: Math.log2,
  sqrt: Math.sqrt,
  "√": Math.sqrt,
  exp: Math.exp,
};
const FUNCTION = /^([-+]?)(\d+\.?\d*|\.\d+)?[*·×]?(log2|ln|log|sqrt|√|exp)(\(?)(\d+\.?\d*|\.\d+)(?:\/(\d+\.?\d*|\.\d+))?(\)?)$/i;

/** A number, one divided by, or to the power of, another; or a function of one, as "ln 4", "2 sqrt(3)". */
function value(text: string): number | null {
  const called = FUNCTION.exec(text);
  if (called) {
    const [, sign, times = "1", name, opening, of, under = "1", closing] = called;
    if (Boolean(opening) !== Boolean(closing)) return null;
    const found = (sign === "-" ? -1 : 1) * Number(times) * FUNCTIONS[name!.toLowerCase()]!(Number(of) / Number(under));
    return Number.isFinite(found) ? found : null;
  }
  const found = /^([-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?)(?:([/^])([-+]?(?:\d+\.?\d*|\.\d+)))?$/i.exec(text);
  if (!found) return null;
  const [, first, sign, second] = found;
  if (!sign) return Number(first);
  return sign === "/" ? Number(first) / Number(second) : Number(first) ** Number(second);
}
