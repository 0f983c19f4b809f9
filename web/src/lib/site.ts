// What Python stated of the project when the site was built (tinygpt/site.py): presets, settings, the default text.
import stated from "../generated/site.json";
import type { EngineName, Knob, RunConfig, Survey } from "../engine/protocol";

export interface SitePreset extends RunConfig {
  name: string;
  parameters: number;
  arenaBytes: number; // the memory a run takes beside its text
}

/** How a model of any size is made and trained. */
export interface SiteRecipe {
  name: string;
  help: string;
  presets: SitePreset[];
}

export interface SiteCorpus {
  name: string;
  title: string;
  description: string;
  file: string; // under the site's root
  bytes: number;
  survey: Survey;
}

/** A Hugging Face dataset that the catalog names. */
export interface SiteDataset {
  name: string;
  title: string;
  description: string;
  dataset: string;
  config: string;
  split: string;
  column: string;
  size: string;
  licence: string;
  language: string;
  rows_per_page: number;
}

/** How fast a preset's steps were on a machine of ours, in a browser. */
export interface SiteSpeed {
  engine: EngineName;
  machine: string;
  points: [preset: string, ms: number][];
}

export interface Site {
  speeds: SiteSpeed[];
  benchPreset: string; // that this machine is measured with
  version: string;
  defaultPreset: string;
  defaultRecipe: string;
  recipes: SiteRecipe[];
  knobs: Knob[];
  projections: string[]; // that adapters may be for, some of which a model may not have
  modelOptions: string[]; // the names of the model's settings that say what it is made of
  untrainedLoss: number; // of a model that knows nothing: ln 256
  corpora: SiteCorpus[]; // the default first
  corpus: SiteCorpus; // the default
  catalog: SiteDataset[];
  hubServer: string; // whom it is asked of
  hubBudget: number; // bytes
}

export const site = { ...stated, corpus: stated.corpora[0] } as unknown as Site;

export function knob(section: Knob["section"], name: string): Knob {
  const found = site.knobs.find((row) => row.section === section && row.name === name);
  if (!found) throw new Error(`core has no setting ${section}.${name}`);
  return found;
}

/** What the model is made of. */
export const modelOptions = site.knobs.filter((row) => row.section === "model" && site.modelOptions.includes(row.name));

const TRAINING = [
  ...["batch", "optimizer", "lr", "matrix_lr", "schedule", "warmup", "min_lr", "grad_clip", "weight_decay", "dropout", "average"],
  "label_smoothing",
  ...["val_fraction", "eval_every", "patience", "sample_every", "seed"],
];

/** What can be set of a run beside its size, its text and its length. */
export const settings = [...TRAINING.map((name) => knob("train", name)), ...modelOptions];

/** What an input of a setting's numbers is called and takes. */
export function limits({ name, low, high, kind }: Knob) {
  return { name, min: low ?? undefined, max: high ?? undefined, step: kind === "int" ? 1 : "any" };
}

/** A model's options that are not the default, as "norm rmsnorm". */
export function optionsOf(model: RunConfig["model"]): string[] {
  return modelOptions.filter(({ name, default: usual }) => model[name] !== usual).map(({ name }) => `${name} ${model[name]}`);
}

export function presetsOf(recipe: string): SitePreset[] {
  const found = site.recipes.find((row) => row.name === recipe);
  if (!found) throw new Error(`core has no recipe ${recipe}`);
  return found.presets;
}

export function presetNamed(name: string, recipe: string): SitePreset {
  const found = presetsOf(recipe).find((row) => row.name === name);
  if (!found) throw new Error(`core has no preset ${name}`);
  return found;
}
