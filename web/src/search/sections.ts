// Pages divided into what can be found: a heading, and the text up to the next one.
import type { Section } from "./find";

const HEADING = /<h([1-4]) id="([^"]*)"[^>]*>(.*?)<\/h\1>/gs;
const NAMED: Record<string, string> = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: " " };

export function sectionsOf(html: string, address: string, page: string): Section[] {
  const headings = Array.from(html.matchAll(HEADING));
  return headings.map((heading, number) => {
    const [whole, depth, id, title] = heading as unknown as [string, string, string, string];
    const text = html.slice(heading.index + whole.length, headings[number + 1]?.index);
    return { address: depth === "1" ? address : `${address}#${id}`, page, title: plain(title), text: plain(text) };
  });
}

export function plain(html: string): string {
  return html
    .replace(/<(script|style)\b.*?<\/\1>/gs, " ")
    .replace(/<\/?(p|div|li|td|th|tr|pre|figure|figcaption|br|h\d|details|summary|blockquote)\b[^>]*>/g, " ")
    .replace(/<[^>]+>/g, "")
    .replace(/&#x([\da-f]+);/gi, (_, code: string) => String.fromCodePoint(parseInt(code, 16)))
    .replace(/&#(\d+);/g, (_, code: string) => String.fromCodePoint(Number(code)))
    .replace(/&(\w+);/g, (whole, name: string) => NAMED[name] ?? whole)
    .replace(/\s+/g, " ")
    .trim();
}
