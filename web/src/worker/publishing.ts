// What the Hugging Face Hub is given of a model: tinygpt/store/hub.py puts the same there.
import { parse, type PublishFacts, text as json } from "../generated/protocol.ts";
import { ModelFile, parted, writeAdapterFile } from "./modelfile.ts";
import type { Python } from "./python.ts";

type Bytes = Uint8Array<ArrayBuffer>;

export interface Publishing {
  model: Bytes; // a .tinygpt file
  weights: Bytes; // the same weights as safetensors
  card: string;
}

/** `bytes`: a whole model's file. */
export async function publishing(bytes: Bytes, facts: PublishFacts, python: Python): Promise<Publishing> {
  const file = await ModelFile.open(bytes, python.file);
  const { request, header } = parted(bytes, python.file);
  const told = parse(python.publish.published(request, header, json(facts)));
  const weights = writeAdapterFile(told.header, new Uint8Array(file.weights().buffer));
  return { model: await file.alone(python.file), weights, card: told.card };
}
