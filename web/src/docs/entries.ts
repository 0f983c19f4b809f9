// The repository's own pages, from Markdown to HTML, once for each build. Not by Astro's collections: those bring its
// pipeline for pictures and a cache that does not know of our plugins, and these pages need neither.
import { globSync, readFileSync } from "node:fs";
import { createSatteriMarkdownProcessor } from "@astrojs/markdown-satteri";
import { captioned, colours } from "./code";
import { pictures, site } from "./markdown";

const REPOSITORY = new URL("../", `file://${process.cwd()}/`);
const PATTERNS = ["docs/*.md", "docs/learn/*.md", "CONTRIBUTING.md", "CHANGELOG.md"];

export interface Entry {
  id: string; // its path in the repository, without ".md"
  body: string;
  html: string;
  headings: { depth: number; slug: string; text: string }[];
}

const markdown = await createSatteriMarkdownProcessor({
  mdastPlugins: [pictures],
  hastPlugins: [site],
  features: { smartPunctuation: false },
  syntaxHighlight: "shiki",
  shikiConfig: {
    theme: "css-variables",
    langAlias: { console: "shellsession", output: "plaintext" },
    transformers: [colours, captioned],
  },
});

async function entryFrom(path: string): Promise<Entry> {
  const fileURL = new URL(path, REPOSITORY);
  const body = readFileSync(fileURL, "utf8");
  const { code, metadata } = await markdown.render(body, { fileURL });
  return { id: path.replace(/\.md$/, ""), body, html: code, headings: metadata.headings };
}

const paths = PATTERNS.flatMap((pattern) => globSync(pattern, { cwd: REPOSITORY })).map((path) => path.replaceAll("\\", "/"));
export const entries: Entry[] = await Promise.all(paths.sort().map(entryFrom));
