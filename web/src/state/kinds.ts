// What the page's parts hand one another.
import type { KeptText, Machine, RunConfig, SavedFile, Start, Text } from "../worker/protocol";

export type { Machine };

/** What a run wrote on its way. */
export interface Sample {
  step: number;
  seconds: number; // of training, by then
  text: string;
}

/** What the reader changed while a run was under way, at the step from which on it holds. */
export interface Mark {
  step: number;
  text: string;
}

export interface Notice {
  kind: "error" | "warning" | "info";
  text: string;
}

/** The text that a model learnt from last: itself, or the sha256 of one that may be kept or the site's. */
export interface Learnt {
  name: string;
  text: Text;
}

/** The model that can be continued, saved and asked to write. Its bytes are in the worker, or in a file just read. */
export interface Model {
  title: string;
  parameters: number;
  config: RunConfig;
  step: number;
  file: SavedFile | null;
  run: string | null; // as the library knows it; null: it is a file's, or of ours
  text: KeptText | null; // that it has learnt from, where the library gave it
  learnt: Learnt | null; // null: it does not say
  base: string | null; // what its adapters stand on is called; null: it is a whole model
}

/** Settings as they were typed; an empty field is null. */
export type Values = Record<string, number | string | null>;

/** What any run needs, whatever the model. The text may have to be fetched first. */
export type Means = Machine & Pick<Start, "textName"> & { text: () => Promise<Text> };

/** What to train: settings over a preset's, and on what text. */
export type Order = Means & Pick<Start, "preset" | "recipe" | "changes" | "seconds" | "hardness">;
