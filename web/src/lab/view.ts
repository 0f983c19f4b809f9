/** What has just appeared below comes into view. */
export function intoView(section: HTMLElement | undefined): void {
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  section?.scrollIntoView({ block: "nearest", behavior: still ? "auto" : "smooth" });
}
