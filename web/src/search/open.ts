// Search over all pages: fetched when it is opened, by a button or by the key "/".
let opening: Promise<{ open: () => void }> | null = null;

async function open(): Promise<void> {
  opening ??= import("./dialog");
  try {
    (await opening).open();
  } catch {
    opening = null; // no network, and not kept yet: another press may find it
  }
}

addEventListener("keydown", (event) => {
  const into = event.target as HTMLElement;
  const typing = into.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(into.tagName);
  if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  void open();
});
addEventListener("click", (event) => {
  if ((event.target as Element).closest("[data-search]")) void open();
});
