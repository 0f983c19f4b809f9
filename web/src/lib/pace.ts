// How fast a text appears: as one reads, where motion is wanted.

const READ = 70; // letters per second

export function readingPace(): number {
  return typeof matchMedia === "undefined" || matchMedia("(prefers-reduced-motion: reduce)").matches ? Infinity : READ;
}
