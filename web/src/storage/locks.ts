// One tab per run: whoever goes on with a run, renames or deletes it, holds its lock. A tab that dies lets go of it.

import { askForTab } from "../lib/tabs.ts";

const PATIENCE = 30_000; // ms: on a busy machine a tab that was closed or reloaded holds its locks for seconds

const name = (id: string): string => `tinygpt-run-${id}`;

export class Locks {
  private readonly held = new Map<string, () => void>();

  /** Whether the lock is ours now. Not if another tab says that it has the run; one that is gone says nothing. */
  async take(id: string): Promise<boolean> {
    if (this.held.has(id) || !("locks" in navigator)) return true;
    const refused = new AbortController();
    const patience = setTimeout(() => refused.abort(), PATIENCE);
    const settle = askForTab(id, () => refused.abort());
    const taken = new Promise<boolean>((resolve) => {
      const hold = (): Promise<void> =>
        new Promise((release) => {
          this.held.set(id, release);
          resolve(true);
        });
      navigator.locks.request(name(id), { signal: refused.signal }, hold).catch(() => resolve(false));
    });
    return taken.finally(() => {
      clearTimeout(patience);
      settle();
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
