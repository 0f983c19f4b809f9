// Code on the site: coloured while it is built, by classes, because the site's policy allows no style attributes.
import type { ShikiTransformer } from "shiki";
import { addressOf, lineOf } from "./addresses";
import { NEEDS } from "./needs";

const TOKEN = /--astro-code-token-([a-z-]+)/;
const KINDS: Record<string, string> = {
  keyword: "k",
  string: "s",
  "string-expression": "s",
  comment: "c",
  constant: "n",
  function: "f",
  parameter: "p",
  link: "s",
};
const SAYS: Record<string, string> = { output: "prints", console: "in a terminal" };
const ELLIPSIS = "… is what differs from machine to machine";

export const colours: ShikiTransformer = {
  name: "colours",
  span(node) {
    const kind = KINDS[TOKEN.exec(String(node.properties["style"]))?.[1] ?? ""];
    delete node.properties["style"];
    if (kind) node.properties["class"] = kind;
  },
  line(node) {
    delete node.properties["class"];
    // What has no colour needs no element.
    node.children = node.children.flatMap((child) => (child.type === "element" && !child.properties["class"] ? child.children : [child]));
  },
  pre(node) {
    delete node.properties["style"];
    delete node.properties["class"];
  },
  code(node) {
    // Lines need elements only where they are linked to.
    node.children = node.children.flatMap((line) => (line.type === "element" && !line.properties["id"] ? line.children : [line]));
  },
};

/** Lines that can be linked to, as #L12. */
export const numbered: ShikiTransformer = {
  name: "numbered",
  line(node, line) {
    node.properties["id"] = `L${line}`;
  },
};

/** Around a block in a text: what it is, and where it is from. */
export const captioned: ShikiTransformer = {
  name: "captioned",
  root(root) {
    const block = root.children[0];
    if (block?.type !== "element") return;
    const language = String(block.properties["dataLanguage"] ?? "");
    const told = String((this.options.meta as { __raw?: string } | undefined)?.__raw ?? "");
    const source = /source=([^\s#]+)(?:#(\S+))?/.exec(told);
    const needs = /needs=(\S+)/.exec(told);
    const caption = [];
    if (source) {
      const [, path = "", name] = source;
      const href = addressOf(path) + (name ? `#L${lineOf(path, name)}` : "");
      caption.push({ type: "element" as const, tagName: "a", properties: { href }, children: [{ type: "text" as const, value: path }] });
    } else if (SAYS[language])
      caption.push({
        type: "text" as const,
        value: [SAYS[language], needs && NEEDS[needs[1]!], language === "output" && this.source.includes("…") && ELLIPSIS]
          .filter(Boolean)
          .join(", "),
      });
    const said = { type: "element" as const, tagName: "figcaption", properties: {}, children: caption };
    const figure = {
      type: "element" as const,
      tagName: "figure",
      properties: { class: `code ${language === "output" ? "output" : ""}`.trim() },
      children: caption.length ? [said, block] : [block],
    };
    root.children = [figure];
  },
};
