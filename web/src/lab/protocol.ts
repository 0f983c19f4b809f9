// What a lab's page and its rooms say to each other: tinygpt/labs/room.py and training.py make and take it.
import type { Changes } from "../generated/protocol";

export interface Asked {
  preset: string;
  recipe: string;
  bytes?: number; // of the text
  steps?: number;
  seed?: number;
  changes?: Record<string, number | string>;
}

export interface PlannedOp {
  kernel: string;
  phase: "forward" | "backward" | "update";
  reads: [name: string, shape: number[], root: string][];
  writes: [name: string, shape: number[], root: string][];
  numbers: Record<string, number>;
  flops: number;
  bytes: number;
}

export interface PlannedSlot {
  name: string;
  shape: number[];
  kind: string;
  start: number; // in floats
  size: number;
  first: number; // the ops between which it lives
  last: number;
}

export interface Planned {
  model: string;
  parameters: number;
  arena: number; // floats
  persistent: number;
  ops: PlannedOp[];
  slots: PlannedSlot[];
  declared: string; // what kernels are called with
}

/** A parameter's gradient against finite differences. */
export interface CheckedGradient {
  name: string;
  length: number;
  error: number;
  right: boolean;
  within: number;
}

/** What a step does, in a few numbers, as digits: some are none. */
export type Evidence = [what: string, values: string[]];

export interface JudgedRow {
  what: string;
  right: boolean;
  value: string;
  wanted: string;
}

/** A comparison of what a reader's function gives with an oracle. */
export interface Comparison {
  what: string; // the oracle
  output: string;
  sizes: Record<string, number | string>; // a text of a tensor that is there in some calls only
  shape: number[];
  right: boolean;
  bound: number;
  heat: (number | null)[][]; // how far off each entry is; null: it is no number
  worst: number | null;
  row: number;
  column: number;
  got: number | null;
  wanted: number | null;
  outside?: boolean; // a kernel wrote past the tensor's end
}

export type KernelEvent = { event: "compared"; row: Comparison } | { event: "timing" } | { event: "compiling"; made: number; of: number };

/** Microseconds of a call of these sizes. */
export interface KernelTimes {
  yours: number;
  ours: number;
  sizes: Record<string, number | string>; // a text of a tensor that is there in some calls only
}

/** A step of a run: what its ops wrote and were given, as Python's text. */
export interface Begun {
  model: string;
  parameters: number;
  weights: string; // as hexadecimal digits
  settings: Record<string, number | string>;
}

export interface Walked {
  step: number;
  loss: number;
  values: string;
  given: string;
}

/** Where two runs part: inside/parting.py's Difference. */
export interface Parted {
  step: number;
  place: number; // of the op, from 0; -1: they began with other weights
  op: string;
  tensor: string;
  shape: number[];
  largest: number | null; // null: they cannot be compared
  share: number;
  because: string[];
  spread: [op: string, tensor: string, largest: number | null][]; // of all that the step wrote
}

/** One thing that can be changed of a run, and what to expect of that: labs/whatif.py. */
export interface WhatIfChange {
  name: string;
  label: string;
  changes: Changes; // settings
  part: string; // that is switched off, or nothing
  guess: "better" | "the same" | "worse" | null; // null: nobody has measured it
  text: string;
}

export interface WhatIfFacts {
  same: number; // validation losses that are closer are called the same
  changes: WhatIfChange[];
}

export type TimedLoss = [step: number, loss: number | null, microseconds: number];

export type Loss = [step: number, loss: number];

export type TrainEvent =
  { event: "begun"; engine: string; steps: number } | { event: "losses"; rows: Loss[] } | { event: "compiling"; made: number; of: number };
