// Numbers in words, as the command line has them.
export { size } from "../players/units";

const whole = new Intl.NumberFormat("en");
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });

export function count(value: number): string {
  return whole.format(value);
}

/** 366432 → 366K */
export function short(value: number): string {
  return compact.format(value);
}

/** 3700 → 1:01:40 */
export function duration(seconds: number): string {
  const left = Math.max(0, Math.round(seconds));
  const two = (n: number) => String(n).padStart(2, "0");
  const hours = Math.floor(left / 3600);
  const minutes = Math.floor(left / 60) % 60;
  return hours ? `${hours}:${two(minutes)}:${two(left % 60)}` : `${minutes}:${two(left % 60)}`;
}

/** A model's bytes may be anything: control characters show as a dot. */
export function printable(text: string): string {
  return text.replace(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/g, "·");
}

export const percent = (share: number): string => `${Math.round(100 * share)} %`;

export function loss(value: number | null): string {
  return value === null ? "–" : value.toFixed(3);
}

/** With a full stop, and a capital unless it begins with a name. */
export function sentence(text: string): string {
  return text.replace(/^[a-z](?=[a-z]* )/, (letter) => letter.toUpperCase()).replace(/\.?$/, ".");
}

export const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

/** As people say it: "40 seconds", "3 minutes", "4 h 45 min". */
export function inWords(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 100) return whole === 60 ? "1 minute" : whole === 1 ? "1 second" : `${whole} seconds`;
  const minutes = Math.round(whole / 60);
  return minutes < 60 ? `${minutes} minutes` : `${Math.floor(minutes / 60)} h${minutes % 60 ? ` ${minutes % 60} min` : ""}`;
}
