// The index of all pages' sections, made here of the texts that the build wrote (pages/search.json.gz.ts).
import MiniSearch from "minisearch";

/** A section of a page: where, what it is called on which page, its text. */
export interface Section {
  address: string; // from the site's root
  page: string;
  title: string;
  text: string;
}
export interface Found extends Section {
  excerpt: [string, boolean][]; // pieces, and whether each was looked for
}

const AROUND = 90; // letters of an excerpt, before and after

export class Index {
  readonly #sections: Section[];
  readonly #index = new MiniSearch<Section & { id: number }>({
    fields: ["title", "page", "text"],
    tokenize: (text) => text.split(/[^\p{L}\p{N}_]+|(?<=[a-z])_|_(?=[a-z])/u),
    processTerm: (term) => (term.length > 1 ? term.toLowerCase() : null),
    searchOptions: {
      boost: { title: 6, page: 3 },
      prefix: (term) => term.length > 2,
      fuzzy: (term) => (term.length > 5 ? 0.15 : false),
      combineWith: "AND",
    },
  });

  constructor(sections: Section[]) {
    this.#sections = sections;
    this.#index.addAll(sections.map((section, id) => ({ ...section, id })));
  }

  find(query: string, most = 12): Found[] {
    return this.#index
      .search(query)
      .slice(0, most)
      .map(({ id, terms }) => {
        const section = this.#sections[id as number]!;
        return { ...section, excerpt: excerptOf(section.text, terms) };
      });
  }
}

export function excerptOf(text: string, terms: string[]): [string, boolean][] {
  const wanted = new RegExp(`(${terms.map((term) => term.replace(/[^\p{L}\p{N}_]/gu, "\\$&")).join("|")})`, "giu");
  const at = Math.max(text.search(wanted), 0);
  const start = at > AROUND ? text.indexOf(" ", at - AROUND) + 1 : 0;
  const piece = (start ? "… " : "") + text.slice(start, at + AROUND) + (at + AROUND < text.length ? " …" : "");
  return piece.split(wanted).map((part, number) => [part, number % 2 === 1]);
}
