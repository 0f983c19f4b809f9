// Files by path, wherever they lie: in the browser's storage, or where it has none in the memory of this tab.

export interface Files {
  /** Whether they outlive the tab. */
  readonly durable: boolean;
  /** Of the files and folders in a folder; none where it does not exist. */
  names(folder: string): Promise<string[]>;
  read(path: string): Promise<Blob | null>;
  /** Writes from `at` on; the file ends behind it. When this is done, the browser has been told to put it on the disk. */
  write(path: string, bytes: Uint8Array<ArrayBuffer>, at?: number): Promise<void>;
  /** A file, or a folder with all that is in it; nothing happens where it does not exist. */
  remove(path: string): Promise<void>;
}

export class MemoryFiles implements Files {
  readonly durable = false;
  private readonly held = new Map<string, Uint8Array<ArrayBuffer>>();

  async names(folder: string): Promise<string[]> {
    const inside = [...this.held.keys()].filter((path) => path.startsWith(`${folder}/`));
    return [...new Set(inside.map((path) => path.slice(folder.length + 1).split("/")[0]!))];
  }

  async read(path: string): Promise<Blob | null> {
    const bytes = this.held.get(path);
    return bytes ? new Blob([bytes]) : null;
  }

  async write(path: string, bytes: Uint8Array<ArrayBuffer>, at = 0): Promise<void> {
    if (at === 0) return void this.held.set(path, bytes);
    const whole = new Uint8Array(at + bytes.length);
    whole.set(this.held.get(path)?.subarray(0, at) ?? []);
    whole.set(bytes, at);
    this.held.set(path, whole);
  }

  async remove(path: string): Promise<void> {
    for (const name of [...this.held.keys()]) if (name === path || name.startsWith(`${path}/`)) this.held.delete(name);
  }
}

const ROOT = "tinygpt";

/** The types of a page do not know what only its workers may do. */
interface Writable extends FileSystemFileHandle {
  createSyncAccessHandle(): Promise<{
    write(bytes: Uint8Array<ArrayBuffer>, options: { at: number }): number;
    truncate(size: number): void;
    flush(): void;
    close(): void;
  }>;
}

/** The origin's private file system. Its files are written through handles that only a worker has, in every browser. */
class PrivateFiles implements Files {
  readonly durable = true;
  private readonly root: FileSystemDirectoryHandle;

  constructor(root: FileSystemDirectoryHandle) {
    this.root = root;
  }

  private async folder(path: string[], create: boolean): Promise<FileSystemDirectoryHandle | null> {
    let at = this.root;
    for (const name of path) {
      const next = await present(at.getDirectoryHandle(name, { create }));
      if (!next) return null;
      at = next;
    }
    return at;
  }

  async names(folder: string): Promise<string[]> {
    const found = await this.folder(folder.split("/"), false);
    const names: string[] = [];
    if (found) for await (const name of found.keys()) names.push(name);
    return names.sort();
  }

  async read(path: string): Promise<Blob | null> {
    const parts = path.split("/");
    const folder = await this.folder(parts.slice(0, -1), false);
    const handle = folder && (await present(folder.getFileHandle(parts.at(-1)!)));
    return handle ? handle.getFile() : null;
  }

  async write(path: string, bytes: Uint8Array<ArrayBuffer>, at = 0): Promise<void> {
    const parts = path.split("/");
    const folder = (await this.folder(parts.slice(0, -1), true))!;
    const handle = (await folder.getFileHandle(parts.at(-1)!, { create: true })) as Writable;
    const file = await handle.createSyncAccessHandle();
    try {
      const written = file.write(bytes, { at });
      if (written < bytes.length) throw new DOMException("the disk is full", "QuotaExceededError");
      file.truncate(at + bytes.length);
      file.flush();
    } finally {
      file.close();
    }
  }

  async remove(path: string): Promise<void> {
    const parts = path.split("/");
    const folder = await this.folder(parts.slice(0, -1), false);
    if (folder) await present(folder.removeEntry(parts.at(-1)!, { recursive: true }));
  }
}

async function present<T>(entry: Promise<T>): Promise<T | null> {
  try {
    return await entry;
  } catch (error) {
    if (error instanceof DOMException && error.name === "NotFoundError") return null;
    throw error;
  }
}

/** The browser's storage if this worker may write to it. */
export async function openFiles(): Promise<Files> {
  try {
    const root = await (await navigator.storage.getDirectory()).getDirectoryHandle(ROOT, { create: true });
    const files = new PrivateFiles(root);
    await files.write("writable", new Uint8Array());
    return files;
  } catch {
    return new MemoryFiles();
  }
}
