// Writes the TypeScript of a folder without its types, for a browser to run as it is. Usage: node strip-types.mjs FROM OUT
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { stripTypeScriptTypes } from "node:module";
import { dirname } from "node:path";

const [from, to] = process.argv.slice(2);
for (const file of readdirSync(from, { recursive: true }).filter((name) => name.endsWith(".ts") && !name.endsWith(".d.ts"))) {
  mkdirSync(dirname(`${to}/${file}`), { recursive: true });
  writeFileSync(`${to}/${file}`, stripTypeScriptTypes(readFileSync(`${from}/${file}`, "utf8"), { sourceUrl: file }));
}
