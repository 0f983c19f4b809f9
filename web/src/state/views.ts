// What the page can show; the address names one: "#play", and of Train settings too: "#train?lr=0.001".
import type { Component } from "svelte";
import type { PLACES } from "./places";

type Place = (typeof PLACES)[number]["name"];

/** Each view, and the place that it belongs to. */
export const VIEWS = {
  home: "play",
  play: "play",
  train: "train",
  text: "train",
  measure: "train",
  inside: "inside",
  models: "models",
  verify: "models",
  share: "models",
  model: "models",
  class: "models",
  lesson: "play",
} as const satisfies Record<string, Place>;

export type View = keyof typeof VIEWS;

/** What shows them, fetched when it is wanted. */
export const VIEW_PARTS: Record<View, () => Promise<{ default: Component }>> = {
  home: () => import("../home/Home.svelte"),
  play: () => import("../play/Play.svelte"),
  train: () => import("../train/Train.svelte"),
  text: () => import("../train/OwnText.svelte"),
  measure: () => import("../measure/Measure.svelte"),
  inside: () => import("../inside/Inside.svelte"),
  models: () => import("../models/Models.svelte"),
  verify: () => import("../verify/Verify.svelte"),
  share: () => import("../share/Share.svelte"),
  model: () => import("../share/HubModel.svelte"),
  class: () => import("../classroom/Classroom.svelte"),
  lesson: () => import("../classroom/LessonView.svelte"),
};

/** The first screen where the address names none. */
export function viewIn(hash: string): View {
  const name = hash.slice(1).split(/[?=]/)[0]!;
  return Object.hasOwn(VIEWS, name) ? (name as View) : "home";
}
