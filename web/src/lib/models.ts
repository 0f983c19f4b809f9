// The models that come with the site, as tinygpt/site/build.py lays them out: a list, and a file for each.
import type { SiteModel } from "../generated/protocol.ts";
import { fetched } from "./fetched.ts";

export type { SiteModel };

/** None where the list cannot be had: the page does without. */
export async function siteModels(): Promise<SiteModel[]> {
  try {
    const list = await fetched("models/list.json", "The list of models", "go on without");
    return JSON.parse(new TextDecoder().decode(list)) as SiteModel[];
  } catch {
    return [];
  }
}

/** What `Run.load` takes, fetched when it is read. */
export function fileOf({ name, file }: SiteModel): Pick<File, "name" | "arrayBuffer"> {
  const bytes = () => fetched(file, `The model ${name}`, "load a file of your own");
  return { name: `${name}.tinygpt`, arrayBuffer: async () => (await bytes()).buffer };
}
