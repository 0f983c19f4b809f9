// The user's own files as one text, by the rules of tinygpt/data/local.py.

/** Nothing of it is read before it is needed. */
export interface OwnText {
  name: string;
  blob: Blob;
  note: string; // what was left out, or nothing
}

const PROBED = 8192; // bytes, in which a binary file shows itself
const LARGEST = 2 ** 30;

export interface Found {
  path: string;
  file: File;
}

/** Of files that were chosen: one, or a folder's. */
export async function ownText(files: File[]): Promise<OwnText> {
  const [only] = files;
  if (!only) throw new Error("There is no file in it: choose another.");
  if (files.length === 1 && !only.webkitRelativePath) return checked({ name: only.name, blob: await unpacked(only), note: "" });
  return joined(files.map((file) => ({ path: file.webkitRelativePath || file.name, file })));
}

/** Of whatever was dropped. */
export async function droppedText(transfer: DataTransfer): Promise<OwnText> {
  const files = [...transfer.files];
  const found = await droppedFolder(transfer);
  return found ? joined(found) : ownText(files);
}

/** All files of what was dropped, with their paths; null where no folder is among it. */
export async function droppedFolder(transfer: DataTransfer): Promise<Found[] | null> {
  const entries = Array.from(transfer.items, (item) => item.webkitGetAsEntry?.() ?? null);
  if (!entries.some((entry) => entry?.isDirectory)) return null;
  const found: Found[] = [];
  for (const entry of entries) if (entry) await walk(entry, found);
  return found;
}

async function walk(entry: FileSystemEntry, found: Found[]): Promise<void> {
  if (entry.isFile) {
    const file = await new Promise<File>((resolve, reject) => (entry as FileSystemFileEntry).file(resolve, reject));
    found.push({ path: entry.fullPath.replace(/^\//, ""), file });
  } else if (!entry.name.startsWith(".")) {
    const reader = (entry as FileSystemDirectoryEntry).createReader();
    for (;;) {
      const some = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
      if (!some.length) return;
      for (const inner of some) await walk(inner, found);
    }
  }
}

/** All text files in the order of their paths, joined by newlines; hidden, binary and empty ones are left out. */
async function joined(found: Found[]): Promise<OwnText> {
  const visible = found.filter(({ path }) => !path.split("/").some((part) => part.startsWith(".")));
  visible.sort((one, other) => compare(one.path.split("/"), other.path.split("/")));
  const texts: Blob[] = [];
  let left = 0;
  for (const { file } of visible) {
    const text = await unpacked(file);
    if (text.size === 0 || (await isBinary(text))) left += 1;
    else texts.push(text);
  }
  const name = visible[0]?.path.split("/")[0] ?? "the folder";
  const files = texts.length === 1 ? "1 text file" : `${texts.length} text files`;
  const note = `${files}${left ? `, ${left} left out as binary or empty` : ""}.`;
  return checked({ name, blob: new Blob(texts.flatMap((text, i) => (i ? ["\n", text] : [text]))), note });
}

function compare(one: string[], other: string[]): number {
  for (let i = 0; i < one.length && i < other.length; i++) if (one[i] !== other[i]) return one[i]! < other[i]! ? -1 : 1;
  return one.length - other.length;
}

async function isBinary(text: Blob): Promise<boolean> {
  return new Uint8Array(await text.slice(0, PROBED).arrayBuffer()).includes(0);
}

async function unpacked(file: File): Promise<Blob> {
  if (!file.name.endsWith(".gz")) return file;
  try {
    return await new Response(file.stream().pipeThrough(new DecompressionStream("gzip"))).blob();
  } catch {
    throw new Error(`${file.name} is not a whole gzip file: unpack it, or rename it.`);
  }
}

function checked(text: OwnText): OwnText {
  if (text.blob.size === 0) throw new Error(`There is no text in ${text.name}: choose a file or a folder with some.`);
  if (text.blob.size > LARGEST) throw new Error(`${text.name} holds more than a gigabyte of text: choose a smaller part of it.`);
  return text;
}
