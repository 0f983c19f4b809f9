// Texts of Hugging Face: what is chosen, what is under way, what has come. The worker asks; nothing is asked of that host before a button is pressed.
import { site, type SiteDataset } from "../lib/site";
import type { Choices, Visiting } from "../worker/protocol";
import { Gone } from "../worker/remote";
import type { Calls } from "./connection";

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

  private readonly calls: () => Calls | null;
  private visit: AbortController | null = null;

  constructor(calls: () => Calls | null) {
    this.calls = calls;
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
    void this.go("look");
  }

  read(): void {
    void this.go("read");
  }

  cancel(): void {
    this.visit?.abort();
    this.visit = this.visiting = null;
  }

  private async go(what: "look" | "read"): Promise<void> {
    this.cancel();
    this.fault = "";
    this.size = this.rows = this.wait = 0;
    this.visiting = what;
    const visit = (this.visit = new AbortController());
    const heard = (told: Visiting): void => {
      if (visit.signal.aborted) return;
      this.wait = "wait" in told ? told.wait : 0;
      if ("rows" in told) [this.size, this.rows] = [told.size, told.rows];
    };
    const { dataset, config, split, column } = this;
    const more = this.known ? { rowsPerPage: this.known.rows_per_page } : {};
    const budget = Math.max(1, Math.round(1e6 * (this.megabytes || 0)));
    const request = { dataset, config, split, column, look: what === "look", budget, ...more };
    try {
      const found = await this.calls()?.visit({ request, token: this.token }, { heard, signal: visit.signal });
      if (visit.signal.aborted || !found) return;
      if ("looked" in found) ({ config: this.config, split: this.split, column: this.column } = this.looked = found.looked);
      else this.fetched = { name: dataset, ...found };
    } catch (error) {
      if (!visit.signal.aborted && !(error instanceof Gone)) this.fault = (error as Error).message;
    }
    if (this.visit !== visit) return;
    this.wait = 0;
    this.visit = this.visiting = null;
  }
}
