// A page of one file, as tinygpt/store/formats/web_page.py makes one: the site's template with a model in it.
import { fetched } from "../lib/fetched.ts";
import { safeName } from "../lib/bytes.ts";
import { answer } from "./answers.ts";
import { inInt8 } from "./int8.ts";
import { ModelFile, parted } from "./modelfile.ts";
import type { Python } from "./python.ts";

type Bytes = Uint8Array<ArrayBuffer>;

/** `model`: a whole model's file. */
export async function webPage(model: Bytes, title: string, prompt: string, python: Python): Promise<{ name: string; blob: Blob }> {
  const template = new TextDecoder().decode(
    await fetched("single/template.txt", "The page that goes with a model", "save the model instead"),
  );
  const small = await inInt8(await ModelFile.open(model, python.file), python.file);
  const { request, header } = parted(small, python.file);
  const plan = { ...answer(python.single.writing_plan(request, header)), title, prompt };
  const parts: Record<string, string> = {
    "@@TITLE@@": escaped(title),
    "@@PLAN@@": await inBase64(new TextEncoder().encode(JSON.stringify(plan))),
    "@@MODEL@@": await inBase64(small),
  };
  const page = template.replace(/@@(?:TITLE|PLAN|MODEL)@@/g, (mark) => parts[mark]!);
  return { name: `${safeName(title)}.html`, blob: new Blob([page], { type: "text/html" }) };
}

function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (letter) => `&#${letter.charCodeAt(0)};`);
}

/** Packed with gzip. */
async function inBase64(bytes: Bytes): Promise<string> {
  const packed = await new Response(new Blob([bytes]).stream().pipeThrough(new CompressionStream("gzip"))).arrayBuffer();
  const letters: string[] = [];
  for (let at = 0; at < packed.byteLength; at += 3 << 13)
    letters.push(btoa(String.fromCharCode(...new Uint8Array(packed.slice(at, at + (3 << 13))))));
  return letters.join("");
}
