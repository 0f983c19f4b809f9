// Which chapters were read and which questions answered, kept in this browser and nowhere else.

const KEY = "tinygpt learn";

export interface Progress {
  read: string[];
  answered: string[];
}

export function progress(): Progress {
  try {
    const kept = JSON.parse(localStorage.getItem(KEY) ?? "{}") as Partial<Progress>;
    const names = (list: unknown): string[] => (Array.isArray(list) ? list.filter((name) => typeof name === "string") : []);
    return { read: names(kept.read), answered: names(kept.answered) };
  } catch {
    return { read: [], answered: [] }; // storage is forbidden, or holds something else
  }
}

export function note(what: keyof Progress, chapter: string): void {
  const before = progress();
  if (before[what].includes(chapter)) return;
  keep({ ...before, [what]: [...before[what], chapter] });
}

export function forget(): void {
  keep({ read: [], answered: [] });
}

function keep(now: Progress): void {
  try {
    localStorage.setItem(KEY, JSON.stringify(now));
  } catch {
    // Then the marks end with this page.
  }
  dispatchEvent(new Event("learned"));
}
