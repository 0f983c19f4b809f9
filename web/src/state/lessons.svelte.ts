// The lesson that is followed in this tab: its cards stay in sight, whatever is opened.
import { type Lesson, lessonIn } from "./lesson";

const KEPT = "tinygpt lesson"; // in this tab, so that a reload does not end it

export class Lessons {
  address = $state("");
  lesson = $state.raw<Lesson | null>(null);
  fault = $state(""); // of the address
  /** The card that is in sight; null: the lesson was not begun. */
  at = $state<number | null>(null);

  /** What an address says; an empty one leaves all as it is. */
  async open(hash: string): Promise<void> {
    try {
      const lesson = await lessonIn(hash);
      this.fault = "";
      if (!lesson || hash === this.address) return;
      [this.lesson, this.address, this.at] = [lesson, hash, null];
    } catch (error) {
      this.fault = (error as Error).message;
    }
  }

  show(card: number): void {
    this.at = card;
    this.keep(JSON.stringify([this.address, card]));
  }

  leave(): void {
    this.at = null;
    this.keep(null);
  }

  /** As it was before a reload. */
  async resume(): Promise<void> {
    try {
      const [address, at] = JSON.parse(sessionStorage.getItem(KEPT) ?? "[]") as [string?, number?];
      if (!address || at === undefined) return;
      await this.open(address);
      this.at = this.lesson && Math.max(0, Math.min(at, this.lesson.cards.length - 1));
    } catch {
      // A browser that keeps nothing begins again.
    }
  }

  private keep(state: string | null): void {
    try {
      if (state === null) sessionStorage.removeItem(KEPT);
      else sessionStorage.setItem(KEPT, state);
    } catch {
      // It does for as long as the page is open.
    }
  }
}
