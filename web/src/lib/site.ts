// What Python stated of the project when the site was built (tinygpt/site/build.py): presets, settings, the default text.
import { isTask } from "./bytes";
import stated from "../generated/site.json";
import type { Knob, RunConfig, Site, SiteCorpus, SiteDataset, SitePreset } from "../generated/protocol";

export type { SiteCorpus, SiteDataset, SitePreset };

const facts = stated as unknown as Site;
const [corpus, larger] = facts.corpora;
/** The text that is there at once, and the default one, which takes a while to fetch. */
export const site = { ...facts, corpus: corpus!, larger: larger! };

/** Texts of the site's own, and those of questions and answers. */
export const siteTexts: SiteCorpus[] = [...facts.corpora, ...facts.tasks];

/** What a text is called in a sentence: of the site's own the title without what it holds, as "Shakespeare". */
export function titleOf(textName: string): string {
  const ours = siteTexts.find(({ name, title }) => title === textName || (name === textName && isTask(name)));
  return ours ? ours.title.split(",")[0]! : textName;
}

export function knob(section: Knob["section"], name: string): Knob {
  const found = site.knobs.find((row) => row.section === section && row.name === name);
  if (!found) throw new Error(`core has no setting ${section}.${name}`);
  return found;
}

/** What the model is made of. */
export const modelOptions = site.knobs.filter((row) => row.section === "model" && site.modelOptions.includes(row.name));

/** What can be set of a run beside its size, its text and its length. */
export const settingGroups: { title: string; fields: Knob[] }[] = [
  ...site.groups.map(({ title, fields }) => ({ title, fields: fields.map((name) => knob("train", name)) })),
  { title: "What the model is made of", fields: modelOptions },
];

export const settings = settingGroups.flatMap(({ fields }) => fields);

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
