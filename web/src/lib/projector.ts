// Large type, for a projector: an attribute of the document, which the page's head sets before anything is drawn.
const KEPT = "tinygpt projector";
const { dataset } = document.documentElement;

export function isLarge(): boolean {
  return "projector" in dataset;
}

export function setLarge(large: boolean): void {
  if (large) dataset["projector"] = "";
  else delete dataset["projector"];
  try {
    if (large) localStorage.setItem(KEPT, "yes");
    else localStorage.removeItem(KEPT);
  } catch {
    // It does for as long as the page is open.
  }
}
