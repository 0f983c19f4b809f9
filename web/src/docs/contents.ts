// What is where in Learn and Reference, in the order of the navigation.
import { addressOf } from "./addresses";
import { type Entry, entries } from "./entries";

export type { Entry };

export interface Link {
  address: string;
  title: string;
  number?: string; // of a chapter
  name: string;
}
export interface Group {
  title: string;
  links: Link[];
}

const GROUPS: [string, string[]][] = [
  ["Use it", ["cli", "api", "data", "budget", "tasks", "sweep", "lora", "look"]],
  ["Share it", ["models", "share", "serve", "capsule", "format"]],
  ["What it reaches", ["quality", "performance"]],
  ["How it works", ["architecture", "step", "passes", "engines", "webgpu", "reference"]],
  ["Work on it", ["edits", "labs", "extending", "testing", "page", "site", "headless-gpu", "CONTRIBUTING", "CHANGELOG"]],
];
const SHORT: Record<string, string> = { performance: "Speed", CHANGELOG: "Changes", "headless-gpu": "WebGPU on a server" };

/** What Learn has beside its chapters; the labs where they are there. */
const BESIDE: Link[] = [
  ...Object.keys(import.meta.glob("../pages/lab/index.astro")).map(() => ({ title: "Labs", address: "/lab/", name: "lab" })),
  { title: "See it run", address: "/step/", name: "step" },
];

export function entryOf(path: string): Entry {
  const found = entries.find(({ id }) => id === path);
  if (!found) throw new Error(`${path}.md is not there`);
  return found;
}

export function titleOf(entry: Entry): string {
  return /^# (.+)$/m.exec(entry.body)?.[1]?.replaceAll("`", "") ?? entry.id;
}

/** The first sentence of its text, without links and marks. */
export function leadOf(entry: Entry): string {
  const paragraphs = entry.body
    .replace(/^```.*?^```$/gms, "")
    .split(/\n\s*\n/)
    .slice(1);
  const first = paragraphs.find((text) => /^\s*[A-Z`"[]/.test(text)) ?? "";
  const plain = first
    .replace(/\s+/g, " ")
    .replace(/\[([^\]]+)\]\([^)]*\)/g, "$1")
    .replace(/[`*]/g, "");
  return (/^.*?[.?:](?= |$)/.exec(plain)?.[0] ?? plain).replace(/:$/, ".").trim();
}

function linkTo(entry: Entry, short?: string): Link {
  const number = /^docs\/learn\/(\d+)/.exec(entry.id)?.[1];
  return {
    address: addressOf(`${entry.id}.md`),
    title: short ?? titleOf(entry),
    name: entry.id.split("/").at(-1)!,
    ...(number && { number: String(Number(number)) }),
  };
}

export const chapters: Entry[] = entries
  .filter(({ id }) => /^docs\/learn\/\d/.test(id))
  .sort((one, other) => one.id.localeCompare(other.id));

export const chapterLinks: Link[] = chapters.map((entry) => linkTo(entry));

export const trail: Group[] = [
  { title: "Practise", links: BESIDE },
  { title: "Chapters", links: chapterLinks },
];

export const reference: Group[] = GROUPS.map(([title, names]) => ({
  title,
  links: names
    .map((name) => entries.find(({ id }) => id === `docs/${name}` || id === name))
    .filter((entry) => entry !== undefined)
    .map((entry) => linkTo(entry, SHORT[entry.id.split("/").at(-1)!])),
}));

export const pages: Entry[] = entries.filter(({ id }) => !id.startsWith("docs/learn/"));

const listed = new Set(GROUPS.flatMap(([, names]) => names));
const forgotten = pages.filter(({ id }) => !listed.has(id.replace("docs/", "")));
if (forgotten.length) throw new Error(`in no group of src/docs/contents.ts: ${forgotten.map(({ id }) => id).join(", ")}`);
