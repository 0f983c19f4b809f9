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

/** An op to derive: tinygpt/labs/derive. */
export interface DeriveLab {
  name: string;
  title: string;
  statement: string;
  starter: string;
  solution: string;
  hints: string[];
  kernel: string;
  outputs: string[];
}

export interface Sources {
  groups: SourceGroup[];
  ready: Record<string, string>; // patches by name
  mutants: Record<string, string>;
  derive: DeriveLab[];
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
