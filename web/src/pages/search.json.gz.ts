// What search goes through: every section of every page, and the sources by their names.
import { gzipSync } from "node:zlib";
import type { APIRoute } from "astro";
import { addressOf } from "../docs/addresses";
import { chapters, entryOf, pages, titleOf } from "../docs/contents";
import shown from "../generated/sources.json";
import type { Section } from "../search/find";
import { sectionsOf } from "../search/sections";

export const GET: APIRoute = () => {
  const texts = [entryOf("docs/learn/README"), ...chapters, ...pages].flatMap((entry) =>
    sectionsOf(entry.html, addressOf(`${entry.id}.md`).slice(1), titleOf(entry)),
  );
  const sources: Section[] = shown
    .filter((path) => !path.endsWith(".ipynb"))
    .map((path) => ({
      address: addressOf(path).slice(1),
      page: "source",
      title: path.split("/").at(-1)!,
      text: path,
    }));
  return new Response(Uint8Array.from(gzipSync(JSON.stringify([...texts, ...sources]), { level: 9 })));
};
