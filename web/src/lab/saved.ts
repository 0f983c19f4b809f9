// Edits that this browser keeps, as patches by name.
const KEPT = "tinygpt edits";

export function savedEdits(): Record<string, string> {
  try {
    const found: unknown = JSON.parse(localStorage.getItem(KEPT) ?? "{}");
    return typeof found === "object" && found !== null ? (found as Record<string, string>) : {};
  } catch {
    return {};
  }
}

/** Keeps a patch, or with null forgets it; a sentence where the browser keeps nothing. */
export function saveEdit(name: string, patch: string | null): string {
  const edits = { ...savedEdits() };
  if (patch === null) delete edits[name];
  else edits[name] = patch;
  try {
    localStorage.setItem(KEPT, JSON.stringify(edits));
    return "";
  } catch {
    return "This browser keeps nothing: download the edit instead.";
  }
}
