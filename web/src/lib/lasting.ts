// Which run's model this tab has, for when it is loaded again.
const KEPT = "tinygpt run";

export function remember(run: string | null): void {
  try {
    if (run) sessionStorage.setItem(KEPT, run);
    else sessionStorage.removeItem(KEPT);
  } catch {
    // A browser that keeps nothing offers the run instead.
  }
}

export function remembered(): string | null {
  try {
    return sessionStorage.getItem(KEPT);
  } catch {
    return null;
  }
}
