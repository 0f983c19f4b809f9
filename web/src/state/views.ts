// What the page can show, in the order of its tabs; the address names one: "#write", and of Train settings too: "#train?lr=0.001".
import type { Component } from "svelte";

export const VIEWS = [
  { name: "start", title: "Start" },
  { name: "train", title: "Train" },
  { name: "write", title: "Write" },
  { name: "inside", title: "Inside" },
  { name: "library", title: "Library" },
  { name: "replay", title: "Replay" },
  { name: "measure", title: "Measure" },
  { name: "share", title: "Share" },
] as const;

export type View = (typeof VIEWS)[number]["name"];

/** What shows them, fetched when it is wanted. */
export const VIEW_PARTS: Record<View, () => Promise<{ default: Component }>> = {
  start: () => import("../start/Start.svelte"),
  train: () => import("../train/Train.svelte"),
  write: () => import("../write/Write.svelte"),
  inside: () => import("../inside/Inside.svelte"),
  library: () => import("../library/Library.svelte"),
  replay: () => import("../replay/Replay.svelte"),
  measure: () => import("../measure/Measure.svelte"),
  share: () => import("../share/Share.svelte"),
};

/** The first where the address names none. */
export function viewIn(hash: string): View {
  return VIEWS.find(({ name }) => hash.split("?")[0] === `#${name}`)?.name ?? VIEWS[0].name;
}

/** What an address says of a run's settings. */
export function settingsIn(hash: string): string {
  return viewIn(hash) === "train" ? (hash.split("?")[1] ?? "") : "";
}
