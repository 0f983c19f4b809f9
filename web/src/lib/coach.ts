// What is said of a run in one sentence: core's advice where there is some, else where it is among runs that went well.
import type { Curve } from "./curve";
import { inWords } from "./format";

interface Course {
  curve: Curve;
  loss: number | null;
  val: number | null;
  advice: string[];
  right: number | null; // the share of unseen questions that it answers; null: its text asks none
  /** The run has ended; of one with a time: that, how long it took, and how often it read the text. */
  over: { timed: number | null; took: number; passes: number } | null;
}

const EARLY = 0.7; // of its time: a run that ended sooner,
const OFTEN = 3; // and has read its text so often, was not to learn it by heart
const APART = 0.25; // between the losses of read and unread text, which a model that learns by heart has
const KNOWN = 0.95; // of the questions: it does not guess
const BETTER = 0.01; // of the loss, over the last fifth of a run: it was still improving

/** How many letters a loss leaves to choose from. */
export function choices(loss: number): string {
  const many = Math.exp(loss);
  return many < 10 ? many.toFixed(1) : String(Math.round(many));
}

export function coached(course: Course): string {
  const { loss, advice, over } = course;
  if (loss === null) return "The curve falls as it learns: it is how surprised the model is by each next letter.";
  if (course.right !== null) return answering(course.right, over !== null);
  if (over) return atTheEnd(course);
  if (advice.length) return advice.at(-1)!;
  const now = `At each letter it chooses among about ${choices(loss)} equally likely ones; it began with 256.`;
  return `${now}${onCourse(course)}`;
}

/** Of a model that learns to answer: loss tells little, for nobody can predict a question. */
function answering(right: number, over: boolean): string {
  const said = `It answers ${Math.round(100 * right)} of 100 questions that its text never asks.`;
  if (right > KNOWN) return `${said} It has found the rule.`;
  return over
    ? `${said} More steps may bring the rule: some come late and then at once.`
    : `${said} What it knew by heart would not help it there.`;
}

function onCourse({ curve, val }: Course): string {
  const at = curve.high.findLastIndex((high) => high !== null);
  if (val === null || at < 0) return "";
  const measured = curve.val[at] ?? val;
  if (measured > curve.high[at]!) return " Runs that went well were lower by now: a lower learning rate may help.";
  return measured < curve.low[at]! ? " That is better than most runs by now." : " It is where runs that went well were by now.";
}

function atTheEnd({ curve, loss, val, advice, over }: Course): string {
  const { timed, took, passes } = over!;
  if (timed !== null && took < EARLY * timed && passes > OFTEN)
    return `It ended after ${inWords(took)}: more steps on so short a text would only learn it by heart. A longer text can use the whole time.`;
  if (advice.length) return advice.at(-1)!;
  if (val !== null && val - loss! > APART)
    return "It knows the text it read better than text it has not seen: a longer text would help most, or dropout in Advanced.";
  const validations = curve.val.filter((value) => value !== null);
  const before = validations[Math.floor(validations.length * 0.8) - 1];
  if (val !== null && before !== undefined && before - val > BETTER * val)
    return "It was still improving: next, give it more time or more steps.";
  return "It has learned about all that this size can: next, try a larger one.";
}
