// One tab per run: whoever goes on with a run, renames or deletes it, holds its lock. A tab that dies lets go of it.

const PATIENCE = 1500; // ms: a tab that was just closed or reloaded may hold a lock that long

const name = (id: string): string => `tinygpt-run-${id}`;

export class Locks {
  private readonly held = new Map<string, () => void>();

  /** Whether the lock is ours now. */
  async take(id: string): Promise<boolean> {
    if (this.held.has(id) || !("locks" in navigator)) return true;
    return new Promise((resolve) => {
      const options = { signal: AbortSignal.timeout(PATIENCE) };
      const hold = (): Promise<void> =>
        new Promise((release) => {
          this.held.set(id, release);
          resolve(true);
        });
      navigator.locks.request(name(id), options, hold).catch(() => resolve(false));
    });
  }

  has(id: string): boolean {
    return this.held.has(id);
  }

  release(id: string): void {
    this.held.get(id)?.();
    this.held.delete(id);
  }

  /** Runs that other tabs hold. */
  async elsewhere(ids: string[]): Promise<Set<string>> {
    if (!("locks" in navigator)) return new Set();
    const { held } = await navigator.locks.query();
    const names = new Set(held?.map((lock) => lock.name));
    return new Set(ids.filter((id) => names.has(name(id)) && !this.held.has(id)));
  }

  /** One tab at a time. */
  alone<T>(work: () => Promise<T>): Promise<T> {
    return "locks" in navigator ? navigator.locks.request("tinygpt-shelf", work) : work();
  }
}
