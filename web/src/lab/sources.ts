// What can be edited, and the edits that there are: fetched when a lab is opened.
import type stated from "../generated/labs.json";

export interface SourceFile {
  path: string; // in the package
  about: string; // what it says of itself
  text: string;
}

export interface SourceGroup {
  title: string;
  files: SourceFile[];
}

export const DEGREES = ["easy", "medium", "hard"] as const;
export type Degree = (typeof DEGREES)[number];

/** An op to derive: tinygpt/labs/derive. */
export interface DeriveLab {
  name: string;
  title: string;
  degree: Degree;
  statement: string;
  starter: string;
  solution: string;
  hints: string[];
  kernel: string;
  outputs: string[];
}

/** A kernel whose heart is to be written: tinygpt/labs/wgsl. */
export interface WriteLab {
  name: string;
  title: string;
  degree: Degree;
  file: string; // in tinygpt/kernels
  statement: string;
  before: string; // the file's text, up to the reader's lines
  starter: string;
  solution: string;
  after: string;
  hints: string[];
  changes: Record<string, number | string>; // settings with which a model trains with it
}

export interface Sources {
  groups: SourceGroup[];
  ready: Record<string, string>; // patches by name
  mutants: Record<string, string>;
  derive: DeriveLab[];
  write: WriteLab[];
}

let coming: Promise<Sources> | null = null;

export function sources(): Promise<Sources> {
  coming ??= import("../generated/labs.json").then((module) => module.default as typeof stated as Sources);
  coming.catch(() => (coming = null));
  return coming;
}

/** Every file's text by its path. */
export function texts({ groups }: Sources): Record<string, string> {
  return Object.fromEntries(groups.flatMap(({ files }) => files.map(({ path, text }) => [path, text])));
}
