// What a reader wrote in a lab, which this browser keeps.
const KEPT = "tinygpt lab draft "; // and the lab's name

export function draft(name: string): string | null {
  try {
    return localStorage.getItem(KEPT + name);
  } catch {
    return null;
  }
}

export function keepDraft(name: string, text: string): void {
  try {
    localStorage.setItem(KEPT + name, text);
  } catch {
    // A browser that keeps nothing forgets it with the page.
  }
}
