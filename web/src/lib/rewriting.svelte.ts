// A text that is rewritten in place: the new one runs over the old one, as far as motion is wanted.
import { untrack } from "svelte";

const TAKES = 450; // ms for all of it

/** Shows what `text` gives; while `moving`, a new text comes letter by letter. */
export function rewriting(text: () => string, moving: () => boolean): { readonly current: string } {
  let shown = $state(untrack(text));
  $effect(() => {
    const [from, to] = [untrack(() => shown), text()];
    if (from === to) return;
    if (!untrack(moving) || matchMedia("(prefers-reduced-motion: reduce)").matches) {
      shown = to;
      return;
    }
    const began = performance.now();
    const length = Math.max(from.length, to.length);
    let due = requestAnimationFrame(function write(now: number) {
      const done = Math.ceil((length * Math.max(0, now - began)) / TAKES);
      shown = to.slice(0, done) + from.slice(done);
      if (done < length) due = requestAnimationFrame(write);
    });
    return () => cancelAnimationFrame(due);
  });
  return {
    get current() {
      return shown;
    },
  };
}
