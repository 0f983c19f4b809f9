// A room of its own for Python whose sources may be edited. Nothing in it lasts: whoever opened it ends it.
import { type Failed, text as json } from "../generated/protocol.ts";
import { Lender } from "../players/lending.ts";
import { borrowThreads } from "../players/thread.ts";
import { editShader, sources, wasmUrl } from "../worker/assets.ts";
import type { Machine, TrialEvent } from "../worker/protocol.ts";
import { startInterpreter } from "../worker/python.ts";
import { answerCalls, type Line } from "../worker/remote.ts";
import { Trial } from "../worker/trial.ts";
import rooms from "../generated/rooms.json";
import type { Changed } from "./patch.ts";
import type {
  Asked,
  Begun,
  CheckedGradient,
  Comparison,
  Evidence,
  JudgedRow,
  KernelEvent,
  KernelTimes,
  Loss,
  Parted,
  Planned,
  TimedLoss,
  TrainEvent,
  Walked,
  WhatIfFacts,
} from "./protocol.ts";
import { WATCHED, YOURS } from "./wgsl.ts";

/** What a lab has of Python: `step` says null once there is no more. */
interface Steps {
  step(): string;
}
interface Room {
  plan(asked: string): string;
  Check(asked: string): Steps;
  SpecRun(asked: string, digits: string): Steps & { describe(): string };
}
interface Training {
  Training(asked: string): { run(trial: Trial, text: Uint8Array): Promise<string> };
}

interface Judging {
  Evidence(): Steps;
  Judge(original: string): Steps;
}

interface Deriving {
  Derivation(asked: string): Steps;
  DerivedRun(asked: string, digits: string): Steps & { describe(): string };
}

interface Writing {
  KernelRoom(asked: string): {
    watched(): string; // the reader's lines with their loops watched, and what goes behind the file
    begin(trial: Trial): Promise<number>;
    compared(call: number): Promise<string>;
    timed(trial: Trial): Promise<string>;
  };
}

let room: Room;
let deriving: () => Deriving;
let writing: () => Writing;
let judging: Judging;
let training: Training;
let walking: () => Walking;
let walk: Walk;
let expecting: () => { asked(request: string): string };

interface Walk {
  describe(): string;
  begin(weights: string): string;
  step(): string;
  parted(step: number, values: string, given: string): string;
}
interface Walking {
  Walk(asked: string, digits: string): Walk;
}

const MARK = "core/edited.py"; // where the sources say who edited them
const IMPORTS = "from tinygpt.labs import shims\nshims.install()\nfrom tinygpt.labs import evidence, room, training";

function* steps<Row>(of: Steps): Generator<Row> {
  for (;;) {
    const row = JSON.parse(of.step()) as Row | null;
    if (row === null) return;
    yield row;
  }
}

const digitsOf = (bytes: Uint8Array): string => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");

const methods = {
  threads: async (port: MessagePort): Promise<void> => {
    const lender = new Lender(port);
    borrowThreads(() => lender.thread());
  },

  /** Comes first: sources in place of the package's own, and what models are to say of it. */
  open: async ({ changed, edit }: { changed: Changed; edit: string }): Promise<void> => {
    const files: Changed = { ...sources, ...rooms };
    for (const [path, text] of Object.entries(changed)) {
      if (path.endsWith(".wgsl")) editShader(path.replace("kernels/", ""), text);
      else files[path] = text;
    }
    if (edit) files[MARK] = files[MARK]!.replace('EDIT = ""', `EDIT = ${JSON.stringify(edit)}`);
    const python = await startInterpreter(files, wasmUrl);
    python.runPython(IMPORTS);
    room = python.globals.get("room") as Room;
    const asked = <Module>(lab: string): Module => {
      python.runPython(`from tinygpt.labs.${lab} import check as ${lab}`);
      return python.globals.get(lab) as Module;
    };
    deriving = () => asked<Deriving>("derive");
    writing = () => asked<Writing>("wgsl");
    expecting = () => {
      python.runPython("from tinygpt.labs import whatif");
      return python.globals.get("whatif") as ReturnType<typeof expecting>;
    };
    walking = () => {
      python.runPython("from tinygpt.labs import walking");
      return python.globals.get("walking") as Walking;
    };
    judging = python.globals.get("evidence") as Judging;
    training = python.globals.get("training") as Training;
  },

  plan: async (asked: Asked): Promise<Planned> => JSON.parse(room.plan(json(asked))) as Planned,

  check: async (asked: Asked, { tell }: Line<CheckedGradient>): Promise<void> => {
    for (const row of steps<CheckedGradient>(room.Check(json(asked)))) tell(row);
  },

  evidence: async (_: undefined, { tell }: Line<Evidence>): Promise<void> => {
    for (const row of steps<Evidence>(judging.Evidence())) tell(row);
  },

  /** Up to the first that is another than the original's. */
  judge: async (original: Evidence[], { tell }: Line<JudgedRow>): Promise<void> => {
    for (const row of steps<JudgedRow>(judging.Judge(json(original)))) {
      tell(row);
      if (!row.right) return;
    }
  },

  /** A reader's function beside finite differences and the specification. */
  derive: async (asked: { lab: string; source: string }, { tell }: Line<Comparison>): Promise<void> => {
    for (const row of steps<Comparison>(deriving().Derivation(json(asked)))) tell(row);
  },

  /** A tiny model in which an op is the reader's, or ours where there is no source. */
  deriveTrain: async (
    { text, ...asked }: { lab: string; source: string; steps: number; text: Uint8Array },
    { tell }: Line<TimedLoss>,
  ): Promise<string> => {
    const run = deriving().DerivedRun(json(asked), digitsOf(text));
    const { model, parameters } = JSON.parse(run.describe()) as { model: string; parameters: number };
    for (const row of steps<TimedLoss>(run)) tell(row);
    return `${parameters} parameters, ${model}`;
  },

  /** A reader's kernel beside the specification, call by call; if all are right, its times beside ours. */
  kernel: async (
    { lab, before, source, after }: { lab: string; before: string; source: string; after: string },
    line: Line<KernelEvent>,
  ): Promise<KernelTimes | null> => {
    const trial = await Trial.on({ engine: "webgpu", threads: 0 }, line as unknown as Line<TrialEvent>);
    let found: KernelTimes | null = null;
    await trial.answer(async () => {
      const kernel = writing().KernelRoom(json({ lab, source, frame: before + after, ...trial.device() }));
      const [lines, declared] = JSON.parse(kernel.watched()) as [string, string];
      editShader(WATCHED, before + lines + after + declared);
      editShader(YOURS, before + source + after);
      const calls = await kernel.begin(trial);
      let right = true;
      for (let call = 0; call < calls; call++) {
        const rows = JSON.parse(await kernel.compared(call)) as Comparison[] | Failed;
        if (!Array.isArray(rows)) return json(rows);
        for (const row of rows) {
          line.tell({ event: "compared", row });
          right &&= row.right;
        }
      }
      if (right) {
        line.tell({ event: "timing" });
        found = JSON.parse(await kernel.timed(trial)) as KernelTimes;
      }
      return json(null);
    });
    return found;
  },

  /** A tiny model, by the specification. */
  specify: async ({ text, ...asked }: Asked & { text: Uint8Array }, { tell }: Line<TrainEvent>): Promise<void> => {
    const run = room.SpecRun(json({ ...asked, bytes: text.length }), digitsOf(text));
    const { model, parameters } = JSON.parse(run.describe()) as { model: string; parameters: number };
    tell({ event: "begun", engine: `the specification, ${parameters} parameters, ${model}`, steps: asked.steps! });
    for (const row of steps<Loss>(run)) tell({ event: "losses", rows: [row] });
  },

  /** A tiny model, by the specification, step by step beside another's. */
  /** Of a run that is kept, at a step: what can be changed of it, and what to expect of that. */
  whatIf: async (run: { config: unknown; step: number; bytes: number }): Promise<WhatIfFacts> =>
    JSON.parse(expecting().asked(json(run))) as WhatIfFacts,

  walk: async ({ text, ...asked }: Asked & { text: Uint8Array }): Promise<Begun> => {
    walk = walking().Walk(json({ ...asked, bytes: text.length }), digitsOf(text));
    return JSON.parse(walk.describe()) as Begun;
  },
  walkFrom: async (weights: string): Promise<Parted | null> => JSON.parse(walk.begin(weights)) as Parted | null,
  walkStep: async (): Promise<Walked> => JSON.parse(walk.step()) as Walked,
  walkParted: async ({ step, values, given }: Walked): Promise<Parted | null> =>
    JSON.parse(walk.parted(step, values, given)) as Parted | null,

  train: async ({ text, engine, threads, ...asked }: Asked & Machine & { text: Uint8Array }, line: Line<TrainEvent>): Promise<void> => {
    const trial = await Trial.on({ engine, threads }, line as unknown as Line<TrialEvent>);
    const request = json({ ...asked, bytes: text.length, ...trial.device() });
    await trial.answer(async () => training.Training(request).run(trial, text));
  },
};

export type Methods = typeof methods;

/** The whole text of an error: the page looks for the line in it. */
const whole = (error: unknown): { message: string } => ({ message: error instanceof Error ? error.message : String(error) });

answerCalls(methods, Promise.resolve(), whole);
