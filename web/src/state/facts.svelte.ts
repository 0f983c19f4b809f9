// What the chosen text is like, and what core says of it: asked of the worker, whose late answers are dropped.
import type { AdviceRequest, Survey, Teaching, TeachingRequest } from "../worker/protocol";
import { SURVEYED } from "../worker/survey";
import type { Calls } from "./connection";

export class Facts {
  survey = $state.raw<Survey | null>(null);
  start = $state.raw<number[]>([]); // the text's first bytes
  advice = $state.raw<string[]>([]);
  /** What adapters of the current model come to. */
  teaching = $state.raw<Teaching | null>(null);

  private readonly calls: () => Calls | null;
  private asked = { survey: 0, advice: 0, teaching: 0, taught: 0 }; // so often: only the last answer counts

  constructor(calls: () => Calls | null) {
    this.calls = calls;
  }

  /** What is asked again before it is answered, or fails, is not answered. */
  private async last<Answer>(what: keyof Facts["asked"], ask: () => Promise<Answer> | undefined): Promise<Answer | undefined> {
    const mine = (this.asked[what] += 1);
    const answer = await ask()?.catch(() => undefined);
    return mine === this.asked[what] ? answer : undefined;
  }

  /** Known already, or of a text that there is not. */
  state(survey: Survey | null): void {
    this.asked.survey += 1;
    this.survey = survey;
    this.start = [];
  }

  async look(text: Blob): Promise<void> {
    const bytes = await this.last("survey", async () => new Uint8Array(await text.slice(0, SURVEYED).arrayBuffer()));
    const found = bytes && (await this.last("survey", () => this.calls()?.survey(bytes, { transfer: [bytes.buffer] })));
    if (found) ({ survey: this.survey, start: this.start } = found);
  }

  async advise(request: AdviceRequest | null): Promise<void> {
    const advice = await this.last("advice", async () => (request ? this.calls()?.advise(request) : []));
    if (advice) this.advice = advice;
  }

  /** The same of a model that is not here yet. */
  taught(request: TeachingRequest): Promise<Teaching | undefined> {
    return this.last("taught", () => this.calls()?.teaching(request));
  }

  async teach(request: TeachingRequest): Promise<void> {
    const teaching = await this.last("teaching", () => this.calls()?.teaching(request));
    if (teaching) this.teaching = teaching;
  }
}
