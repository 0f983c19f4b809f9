// The repository's Markdown as pages of the site: links lead to pages, marks become figures, each in its place.
import { fileURLToPath } from "node:url";
import { defineHastPlugin, defineMdastPlugin } from "satteri";
import { linkFrom } from "./addresses";
import { pictureFrom, sizeOf } from "./pictures";

const FIGURE = /^\s*(?:<!--)?\s*figure: ([\w-]+)\s*(?:-->)?\s*$/;

function pathIn(url: URL | undefined): string {
  const repository = fileURLToPath(new URL("../", `file://${process.cwd()}/`));
  return url ? fileURLToPath(url).slice(repository.length).replaceAll("\\", "/") : "";
}

/** Pictures are files of the site, with an address that says what they hold. */
export const pictures = defineMdastPlugin({
  name: "pictures",
  image(node, context) {
    context.setProperty(node, "url", pictureFrom(pathIn(context.fileURL), node.url));
  },
});

export const site = defineHastPlugin({
  name: "site",
  element: [
    {
      filter: ["a"],
      visit(node, context) {
        const { href } = node.properties;
        if (typeof href === "string") context.setProperty(node, "href", linkFrom(pathIn(context.fileURL), href));
      },
    },
    {
      filter: ["img"],
      visit(node, context) {
        const size = sizeOf(String(node.properties["src"]));
        for (const [name, value] of Object.entries({ ...size, loading: "lazy" })) context.setProperty(node, name, value);
      },
    },
    {
      filter: ["blockquote"],
      visit(node, context) {
        if (context.textContent(node).trimStart().startsWith("Try it.")) context.setProperty(node, "className", ["try"]);
      },
    },
    {
      filter: ["p"],
      visit(node, context) {
        if (/^About \d+ minutes\./.test(context.textContent(node))) context.setProperty(node, "className", ["needs"]);
        // The page has its own way to the next chapter.
        if (/^Next: /.test(context.textContent(node)) && pathIn(context.fileURL).startsWith("docs/learn/")) context.removeNode(node);
      },
    },
    {
      filter: ["table"],
      visit(node, context) {
        // A wide one scrolls, by keys too.
        context.wrapNode(node, { type: "element", tagName: "div", properties: { className: ["wide"], tabIndex: 0 }, children: [] });
      },
    },
  ],
  comment(node, context) {
    const found = FIGURE.exec(node.value);
    if (found) context.replaceNode(node, { type: "element", tagName: "div", properties: { "data-figure": found[1]! }, children: [] });
  },
  raw(node, context) {
    const found = FIGURE.exec(node.value);
    if (found) context.replaceNode(node, { type: "element", tagName: "div", properties: { "data-figure": found[1]! }, children: [] });
  },
});
