// A model file without a part, as a run can begin with it.
import { type ModelHeader, parse, text as json } from "../generated/protocol.ts";
import { ModelFile, parted, writeModelFile } from "./modelfile.ts";
import type { ModelBytes } from "./protocol.ts";
import type { Python } from "./python.ts";

/** The file with zeros where a part's weights are, and all else of it, the optimizer's state included, as it is. */
export async function withoutPart(bytes: ModelBytes["bytes"], part: string, python: Python): Promise<ModelBytes["bytes"]> {
  const file = await ModelFile.open(bytes, python.file);
  const { config, progress, pieces, slots } = file.front;
  const { scaled } = parse(
    python.inside.moves(json({ model: config.model, train: config.train }), Number(config.model["ctx"]), json([[part, 0]])),
  );
  const floats = new Float32Array(file.body().buffer);
  const moving = [0, slots.indexOf("live") + 1].filter((array, i) => i === 0 || array > 0); // weights, and those of which they are the average
  for (const [offset, rows, width, pitch] of scaled) {
    const piece = pieces.find(([, , begin, size]) => begin <= offset && offset < begin + size)!;
    for (const array of moving) {
      const start = (slots.length + 1) * piece[2] + array * piece[3] + offset - piece[2];
      for (let row = 0; row < rows; row++) floats.fill(0, start + row * pitch, start + row * pitch + width);
    }
  }
  const { header } = parted(bytes, python.file);
  return writeModelFile(JSON.parse(header) as ModelHeader, progress.step, new Uint8Array(floats.buffer));
}
