// What the page's parts hand one another.
import type { Changes, EngineName, FromWorker, KeptText, Prompt, RunConfig, SavedFile } from "../engine/protocol";

export type Phase = "loading" | "idle" | "checking" | "starting" | "training" | "stopping" | "writing" | "broken";

export interface Sample {
  id: number;
  title: string;
  text: string;
}

/** What the model in hand can be asked: to write on from a prompt, or how likely each byte is to follow it. */
export type Question = ({ type: "write"; stop?: string } | { type: "weigh" }) & Omit<Prompt, "id">;
export type Answer = Extract<FromWorker, { type: "written" | "weighed" }>;

export interface Notice {
  kind: "error" | "warning" | "info";
  text: string;
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
  base: string | null; // what its adapters stand on is called; null: it is a whole model
}

/** Settings as they were typed; an empty field is null. */
export type Values = Record<string, number | string | null>;

/** What to train: settings over a preset's, and on what text. */
export interface Order {
  preset: string;
  recipe: string;
  changes: Changes;
  text: Uint8Array<ArrayBuffer> | string; // or the sha256 of one that is kept
  textName: string;
  engine: EngineName;
  threads: number; // of WebAssembly; 0: all
  seconds?: number; // within which it is to end: its size is chosen by measurement
}

/** What computes. */
export type Machine = Pick<Order, "engine" | "threads">;

/** What any run needs, whatever the model. */
export type Means = Machine & Pick<Order, "text" | "textName">;
