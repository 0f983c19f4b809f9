// What the chosen text is like, and what core says of it: asked of the worker, whose late answers are dropped.
import type { AdviceRequest, Advised, Changes, FromWorker, RunConfig, Survey, Teaching, ToWorker } from "../engine/protocol";
import { SURVEYED } from "../engine/survey";

type Send = (message: ToWorker, transfer?: Transferable[]) => void;

export class Facts {
  survey = $state.raw<Survey | null>(null);
  start = $state.raw<number[]>([]); // the text's first bytes
  advice = $state.raw<string[]>([]);
  /** What adapters of the model in hand come to. */
  teaching = $state.raw<Teaching | null>(null);

  private readonly send: Send;
  private asked = 0;
  private advised = 0;
  private taught = 0;

  constructor(send: Send) {
    this.send = send;
  }

  /** Known already, or of a text that there is not. */
  state(survey: Survey | null): void {
    this.asked += 1;
    this.survey = survey;
    this.start = [];
  }

  async look(text: Blob): Promise<void> {
    const id = (this.asked += 1);
    const bytes = new Uint8Array(await text.slice(0, SURVEYED).arrayBuffer());
    if (id === this.asked) this.send({ type: "survey", id, text: bytes }, [bytes.buffer]);
  }

  advise(request: AdviceRequest | null): void {
    this.advised += 1;
    if (request) this.send({ type: "advise", id: this.advised, request });
    else this.advice = [];
  }

  teach(config: RunConfig, lora: Changes): void {
    this.taught += 1;
    this.send({ type: "teaching", id: this.taught, config, lora });
  }

  take(message: Extract<FromWorker, { type: "surveyed" | "teaching" }> | (Advised & { type: "advised" })): void {
    if (message.type === "teaching") {
      if (message.id === this.taught) this.teaching = message;
    } else if (message.type === "advised") {
      if (message.id === this.advised) this.advice = message.advice;
    } else if (message.id === this.asked) {
      this.survey = message.survey;
      this.start = message.start;
    }
  }
}
