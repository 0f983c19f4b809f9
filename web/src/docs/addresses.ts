// Where the site shows a file of the repository. Used while it is built only.
import { existsSync, readFileSync, statSync } from "node:fs";
import { posix } from "node:path";

/** The repository: the build runs in web/. */
const REPOSITORY = new URL("../", `file://${process.cwd()}/`);
const TRAIL = "docs/learn/";
const ALSO = ["CONTRIBUTING.md", "CHANGELOG.md"]; // pages of the site that are not in docs/

/** What docs/learn, docs and the two above become, from the root of the site; else the page that shows the file itself. */
export function addressOf(path: string): string {
  if (path === "" || path === "README.md") return "/";
  if (path === "docs" || path === "docs/") return "/reference/";
  if (path === `${TRAIL}README.md` || path === "docs/learn") return "/learn/";
  if (path.endsWith(".md")) {
    const name = posix.basename(path, ".md");
    if (posix.dirname(path) + "/" === TRAIL) return `/learn/${name}/`;
    if (posix.dirname(path) === "docs" || ALSO.includes(path)) return `/reference/${name.toLowerCase()}/`;
  }
  const page = /^web\/src\/pages\/(\w+)$/.exec(path); // one that the site has and docs/ has not
  return page ? `/${page[1]}/` : `/source/${pathOnSite(path)}/`;
}

/** A folder on the site: a name that ends in .py would be a module to those that pack it. */
export function pathOnSite(path: string): string {
  return path.replaceAll(".", "-");
}

/** A link in a file of the repository, as one of the site. */
export function linkFrom(file: string, href: string): string {
  if (/^([a-z]+:|#|\/)/i.test(href)) return href;
  const [path, place] = href.split("#") as [string, string?];
  const target = posix.join(posix.dirname(file), path).replace(/\/$/, "").replace(/^\.$/, "");
  if (target.startsWith("..") || !existsSync(new URL(target, REPOSITORY))) throw new Error(`${file}: ${href} leads nowhere`);
  return addressOf(target) + (place === undefined ? "" : `#${place}`);
}

export function isFolder(path: string): boolean {
  return statSync(new URL(path, REPOSITORY)).isDirectory();
}

export function contentOf(path: string): string {
  return readFileSync(new URL(path, REPOSITORY), "utf8");
}

/** The line that defines what `source=PATH#NAME` shows. */
export function lineOf(path: string, name: string): number {
  const lines = contentOf(path).split("\n");
  const defining = new RegExp(`^\\s*(async )?(def|class) ${name}\\b`);
  const calling = new RegExp(`\\b${name}\\b.*\\{$`);
  const at = lines.findIndex((line) => defining.test(line));
  return 1 + (at >= 0 ? at : lines.findIndex((line) => calling.test(line)));
}
