// Texts of Hugging Face: what is chosen, what is under way, what has come. The worker asks; nothing is asked of that host before a button is pressed.
import { site, type SiteDataset } from "../lib/site";
import type { Choices, ToWorker, Visited } from "../engine/protocol";

const TOKEN = "tinygpt hugging face token"; // in this browser only

/** A text that has come. */
export interface Fetched {
  name: string;
  text: Uint8Array<ArrayBuffer>;
  description: string;
}

export class Hub {
  entry = $state(site.catalog[0]!.name); // of the catalog; empty: another dataset, as typed
  typed = $state("");
  config = $state<string | null>(null);
  split = $state<string | null>(null);
  column = $state<string | null>(null);
  megabytes = $state(site.hubBudget / 1e6);
  token = $state("");
  looked = $state.raw<Choices | null>(null);
  visiting = $state<"look" | "read" | null>(null);
  size = $state(0);
  rows = $state(0);
  wait = $state(0); // seconds, that the server asks for
  fault = $state("");
  fetched = $state.raw<Fetched | null>(null);

  private readonly send: (message: ToWorker) => void;
  private visit = 0; // the last one's number: what is heard of another is late

  constructor(send: (message: ToWorker) => void) {
    this.send = send;
    try {
      this.token = localStorage.getItem(TOKEN) ?? "";
    } catch {
      // A browser that keeps nothing asks again.
    }
    this.pick(this.entry);
  }

  get known(): SiteDataset | null {
    return site.catalog.find((row) => row.name === this.entry) ?? null;
  }

  get dataset(): string {
    return this.known?.dataset ?? this.typed.trim();
  }

  pick(name: string): void {
    this.cancel();
    this.entry = name;
    this.forget();
  }

  /** Another dataset is meant: what was known of the last one is not of this. */
  forget(): void {
    this.looked = null;
    this.fault = "";
    this.config = this.known?.config ?? null;
    this.split = this.known?.split ?? null;
    this.column = this.known?.column ?? null;
  }

  keepToken(token: string): void {
    this.token = token.trim();
    try {
      if (this.token) localStorage.setItem(TOKEN, this.token);
      else localStorage.removeItem(TOKEN);
    } catch {
      // It does for as long as the page is open.
    }
  }

  look(): void {
    this.go("look");
  }

  read(): void {
    this.go("read");
  }

  cancel(): void {
    if (!this.visiting) return;
    this.visit += 1;
    this.visiting = null;
    this.send({ type: "leave" });
  }

  take(message: Visited): void {
    if (message.id !== this.visit || !this.visiting) return;
    this.wait = "wait" in message ? message.wait : 0;
    if ("rows" in message) {
      this.size = message.size;
      this.rows = message.rows;
    } else if ("error" in message) {
      this.fault = message.error;
      this.visiting = null;
    } else if ("looked" in message) {
      const { looked } = message;
      this.looked = looked;
      this.config = looked.config;
      this.split = looked.split;
      this.column = looked.column;
      this.visiting = null;
    } else if ("text" in message) {
      this.fetched = { name: this.dataset, text: message.text, description: message.description };
      this.visiting = null;
    }
  }

  /** The worker, and whatever it was at, is gone. */
  abandon(): void {
    this.visiting = null;
  }

  private go(what: "look" | "read"): void {
    this.cancel();
    this.fault = "";
    this.size = this.rows = this.wait = 0;
    this.visiting = what;
    this.visit += 1;
    const { dataset, config, split, column } = this;
    const more = this.known ? { rowsPerPage: this.known.rows_per_page } : {};
    const budget = Math.max(1, Math.round(1e6 * (this.megabytes || 0)));
    this.send({ type: "visit", id: this.visit, token: this.token, request: { dataset, config, split, column, look: what === "look", budget, ...more } });
  }
}
