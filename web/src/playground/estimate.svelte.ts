// What the chosen run would take here: asked of the worker, and forgotten when another is chosen.
import { sentence } from "../lib/format";
import type { Estimated, FromWorker, ToWorker } from "../engine/protocol";

type Wanted = Omit<Extract<ToWorker, { type: "estimate" }>, "type" | "id">;

export class Estimate {
  answer = $state.raw<Estimated | null>(null);
  fault = $state("");
  measuring = $state(false);

  private readonly send: (message: ToWorker) => void;
  private asked = 0;

  constructor(send: (message: ToWorker) => void) {
    this.send = send;
  }

  ask(wanted: Wanted): void {
    this.forget();
    this.measuring = true;
    this.send({ type: "estimate", id: this.asked, ...wanted });
  }

  /** Another run is chosen: what is still heard of this one is late. */
  forget(): void {
    this.asked += 1;
    this.answer = null;
    this.fault = "";
    this.measuring = false;
  }

  take(message: Extract<FromWorker, { type: "estimated" | "unestimated" }>): void {
    if (message.id !== this.asked) return;
    this.measuring = false;
    if (message.type === "estimated") this.answer = message;
    else this.fault = sentence(message.message);
  }
}
