// The Hugging Face Hub, through its own client, which is fetched when somebody asks for it. Nothing is asked of the Hub before.
import type { Publishing } from "../worker/publishing";

const NAME = /^(?:hf:)?([\w.-]+\/[\w.-]+)$/;
const FILE = "model.tinygpt";
const TAKEN = 409;

/** user/name, as the Hub has names; null of anything else. */
export function repoOf(name: string): string | null {
  return NAME.exec(name.trim())?.[1] ?? null;
}

export interface Wish {
  repo: string;
  token: string;
  isPrivate: boolean;
  title: string;
  picture: Blob | null;
}

/** Puts a model there; its address. */
export async function publish(
  { model, weights, card }: Publishing,
  { repo: name, token, isPrivate, title, picture }: Wish,
): Promise<string> {
  const { createRepo, HUB_URL, uploadFiles } = await import("@huggingface/hub");
  const asked = { repo: { type: "model", name } as const, accessToken: token };
  const files = [
    { path: "README.md", content: new Blob([card]) },
    { path: FILE, content: new Blob([model]) },
    { path: "model.safetensors", content: new Blob([weights]) },
    ...(picture ? [{ path: "loss.png", content: picture }] : []),
  ];
  try {
    await createRepo({ ...asked, visibility: isPrivate ? "private" : "public" }).catch((error: unknown) => {
      if (statusOf(error) !== TAKEN) throw error; // it is there already
    });
    await uploadFiles({ ...asked, files, commitTitle: title, useXet: false, useWebWorkers: false });
  } catch (error) {
    throw new Error(why(error, name));
  }
  return `${HUB_URL}/${name}`;
}

/** A model's file from there. */
export async function download(name: string): Promise<Uint8Array<ArrayBuffer>> {
  const { downloadFile } = await import("@huggingface/hub");
  let found: Blob | null;
  try {
    found = await downloadFile({ repo: { type: "model", name }, path: FILE, xet: false });
    if (found) return new Uint8Array(await found.arrayBuffer());
  } catch (error) {
    throw new Error(why(error, name));
  }
  throw new Error(`${name} has no ${FILE}, so it is not a model of TinyGPT's`);
}

function statusOf(error: unknown): number | null {
  return (error as { statusCode?: number }).statusCode ?? null;
}

function why(error: unknown, name: string): string {
  const status = statusOf(error);
  if (status === 401 || status === 403)
    return `the Hub does not let you do this with ${name}: check the name, and that the token may write`;
  if (status === 404) return `there is no model ${name} on the Hub: check the name`;
  if (status !== null) return `the Hub answers ${status} for ${name}: try again later`;
  return `the Hub cannot be reached: check the network, then try again`;
}
