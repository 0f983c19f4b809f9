// What leaves the page of the current model: files, a page, what the Hub is given. Nothing of it changes the model.
import { safeName } from "../lib/bytes";
import type { Life, SavedFile, Scale } from "../worker/protocol";
import type { Publishing } from "../worker/publishing";
import type { Calls } from "./connection";
import type { Model } from "./kinds";

/** The run whose model it is. */
interface Owner {
  model(): Model;
  calls(): Calls;
  /** A file has the model as of that step. */
  saved(step: number): void;
  /** Before something is asked for: what was said of the last time is not of this. */
  hush(): void;
  refuse(error: unknown): void;
}

export class Files {
  private readonly owner: Owner;

  constructor(owner: Owner) {
    this.owner = owner;
  }

  private get model(): Model {
    return this.owner.model();
  }

  /** A model that is in a file only is not in the worker. */
  private get given(): { file?: SavedFile } {
    return this.model.file ? { file: this.model.file } : {};
  }

  /** What the model is called, without the end of a file's name. */
  private get title(): string {
    return this.model.title.replace(/\.(tinygpt|safetensors|html)$/, "");
  }

  async save(deliver: (bytes: Uint8Array<ArrayBuffer>, name: string) => void): Promise<void> {
    try {
      const { file } = this.model;
      const { bytes, name, step } = file ?? (await this.owner.calls().save());
      deliver(bytes, file ? name : this.nameOf(name, step));
      this.owner.saved(step);
    } catch (error) {
      this.owner.refuse(error);
    }
  }

  /** By the model's title; of adapters it says that they are only a part. */
  private nameOf(name: string, step: number): string {
    const part = this.model.base ? ", adapter only" : "";
    return `${safeName(this.title)}${part}, step ${step}${name.slice(name.lastIndexOf("."))}`;
  }

  /** The model as a page of one file; adapters are merged into what they are for. */
  page(prompt: string): Promise<{ name: string; blob: Blob }> {
    return this.owner.calls().page({ title: this.title, prompt, ...this.given });
  }

  /** What it wrote as it learned, and the curve. */
  async life(): Promise<Life> {
    return { title: this.title, ...(await this.owner.calls().life(this.given)) };
  }

  /** What the Hub is given of it. */
  published(repo: string, licence: string): Promise<Publishing> {
    return this.owner.calls().published({ repo, title: this.title, licence, ...this.given });
  }

  /** The proof of a run that is kept. */
  capsule(): Promise<{ name: string; blob: Blob }> {
    return this.owner.calls().share(this.model.run!);
  }

  /** Of the current adapters: the model that they are for, or the plain model that the two make; null where that failed. */
  part(which: "base" | "merged"): Promise<SavedFile | null> {
    this.owner.hush();
    return this.orNull(this.owner.calls().part({ which, ...this.given }));
  }

  /** The current model with parts that count for more, less or nothing; null where that failed. */
  scaled(scales: Scale[]): Promise<SavedFile | null> {
    return this.orNull(this.owner.calls().scaled({ scales, ...this.given }));
  }

  private async orNull(asked: Promise<SavedFile>): Promise<SavedFile | null> {
    try {
      return await asked;
    } catch (error) {
      this.owner.refuse(error);
      return null;
    }
  }
}
