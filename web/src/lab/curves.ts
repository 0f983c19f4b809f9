// What two curves say: their ends, smoothed.
import type { Loss } from "./protocol";

const LAST = 20; // steps, over which an end is averaged

export function endOf(rows: Loss[]): number | null {
  const last = rows.slice(-LAST).map(([, loss]) => loss);
  return last.length ? last.reduce((sum, loss) => sum + loss, 0) / last.length : null;
}

/** A sentence that compares a run with the original's. */
export function compared(original: Loss[], other: Loss[], whose = "yours"): string {
  const [theirs, its] = [endOf(original), endOf(other)];
  if (theirs === null || its === null) return "";
  if (!Number.isFinite(its)) return `The loss of ${whose} is no number any more: it blew up.`;
  const off = its - theirs;
  const verdict =
    Math.abs(off) < 0.005
      ? "They end at the same loss"
      : off > 0
        ? `${capital(whose)} ends ${off.toFixed(3)} higher`
        : `${capital(whose)} ends ${(-off).toFixed(3)} lower`;
  return `${verdict}: ${its.toFixed(3)}, and the original ${theirs.toFixed(3)} (means of the last ${Math.min(LAST, other.length)} steps).`;
}

const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);
