// What a check found, as `tinygpt gradients` says it.
import type { CheckedGradient } from "./protocol";

export function verdict(rows: CheckedGradient[], done: boolean): string {
  const wrong = rows.filter(({ right }) => !right);
  if (wrong.length)
    return (
      `${wrong.length} of ${rows.length} gradients are wrong. Going backward, ${wrong[0]!.name} is the first: ` +
      "look at the op that makes it, or at the one before."
    );
  if (!done) return rows.length ? `Stopped after ${rows.length} gradients, which are right.` : "";
  return `All ${rows.length} gradients agree with finite differences to ${rows[0]!.within} of their length.`;
}
