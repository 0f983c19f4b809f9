"""What Python and JavaScript say to each other in a tab, described once: calls, events, what the page is built with.

python -m tinygpt.site makes TypeScript of it (web/src/generated/protocol.ts), comments included, and
tests/core/test_protocol.py checks what Python really says against it.

A class with methods is what one side calls on the other; the other classes are JSON objects, and named tuples are JSON
arrays. `Json[T]` is the text of a T: MicroPython and JavaScript both read and write it exactly.
"""

from typing import Any, Generic, Literal, NamedTuple, NotRequired, TypedDict, TypeVar

T = TypeVar("T")

class Json(str, Generic[T]): ...  # text: a T as JSON
class Bytes: ...  # that JavaScript holds: Python has no more than the handle

Changes = dict[str, float | str]  # settings by name
EngineName = Literal["webgpu", "wasm"]

class Failed(TypedDict):  # Instead of an answer
    error: str  # one sentence

class RunConfig(TypedDict):
    model: Changes
    train: Changes
    lora: NotRequired[Changes]  # of adapters

Point = tuple[int, float]  # step, loss
Frame = tuple[int, str]  # step, what was written

# --- what is computed: core/plan makes it, a player takes it

Place = tuple[int, int, int]  # buffer, offset, size

class ProgramWords(TypedDict):
    words: list[int]
    commit: int  # the word from which on it cannot be abandoned

class Playbook(TypedDict):  # What the WebAssembly player takes (core/plan/cpu/lowering.py)
    buffers: list[int]  # bytes of the one arena
    programs: dict[str, ProgramWords]  # by mode

class PipelinePlaybook(TypedDict):  # A WGSL kernel
    files: list[str]  # whose texts are joined
    entry: str
    constants: list[tuple[str, int, int]]  # name, isFloat, valueOrBits
    bindings: str  # a letter each: r where the kernel only reads, w where it writes

DispatchPlaybook = list[int]  # a pipeline's number, its grid (x, y, z), then the place of each binding

class GpuPlaybook(TypedDict):  # What a GPU's player takes (core/plan/gpu/lowering.py)
    buffers: list[int]  # bytes of each; they begin as zeros
    pipelines: list[PipelinePlaybook]
    programs: dict[str, list[DispatchPlaybook]]  # by mode

class DeviceFacts(TypedDict):  # What lowering must know of a GPU, by the names of core/ops/gpu.py's Device
    max_buffer: int
    max_binding: int
    max_groups: int
    max_invocations: int
    max_shared: int
    subgroups: bool
    f16: bool
    processors: NotRequired[int]

class WebGpu(TypedDict):  # A GPU's adapter. A software adapter computes on the CPU: it is never called a GPU
    adapter: str
    software: bool

# --- events, in the order in which a run may make them

class BaseMeasured(TypedDict):
    event: Literal["base"]
    step: int
    val_loss: float  # of the model that the adapters are for

class Steps(TypedDict):
    event: Literal["steps"]
    rows: list[tuple[int, float, float, float]]  # a block of them, in order: step, loss, gradNorm, lr
    tokens_per_s: float
    eta_s: float

class Evaluated(TypedDict):
    event: Literal["eval"]
    step: int
    val_loss: float
    best: bool
    band: NotRequired[tuple[float, float]]  # low, high

class Examined(TypedDict):  # Questions of a task that its text never asks, as the model answered them
    event: Literal["exam"]
    step: int
    accuracy: float
    right: int
    asked: int
    answers: list[tuple[str, str, str]]  # some: question, right answer, the model's

class Sampled(TypedDict):
    event: Literal["sample"]
    step: int
    text: str

class Advice(TypedDict):  # What looks wrong and what to try
    event: Literal["advice"]
    step: int
    kind: str
    text: str

class Checkpointed(TypedDict):
    event: Literal["checkpoint"]
    step: int
    kind: Literal["last", "best"]

class Unkept(TypedDict):  # Why the run could not be kept just now
    event: Literal["unkept"]
    step: int
    text: str

class Retimed(TypedDict):  # A run within a budget has another length
    event: Literal["retime"]
    step: int
    steps: int
    before: int

class Expected(TypedDict):  # A validation loss to expect; about nineteen of twenty runs end from low to high
    loss: float
    low: float
    high: float

class BudgetVerdict(TypedDict):  # How good a prediction was
    event: Literal["verdict"]
    predicted: Expected
    reached: float
    retimed: NotRequired[float]  # what was to be expected of the run's last length
    off: float

class BudgetOption(TypedDict):  # A run that would fit a budget: core/budget/facts.py
    preset: str
    batch: int
    dropout: float
    seconds_per_step: float
    steps: int
    tokens: int
    epochs: float
    predicted: Expected

class OptionMeasured(TypedDict):
    event: Literal["option"]
    option: BudgetOption

class MeasuredSteps(TypedDict):
    event: Literal["measuring"]
    steps: int  # that were read of an engine so far

class ReplayStarted(TypedDict):
    event: Literal["replaying"]
    engine: str  # in words
    steps: int  # the last one to replay

ReplayedRow = tuple[int, float, float | None]  # step, here, told

class ReplayedSteps(TypedDict):
    event: Literal["replayed"]
    rows: list[ReplayedRow]

CoreEvent = (
    BaseMeasured
    | Steps
    | Evaluated
    | Examined
    | Sampled
    | Advice
    | Checkpointed
    | Unkept
    | Retimed
    | BudgetVerdict
    | OptionMeasured
    | MeasuredSteps
    | ReplayStarted
    | ReplayedSteps
)

# --- model files: tab/file.py

class FilePrefix(TypedDict):
    prefix: list[int]  # the file's first bytes
    size: int  # of the file

class FileStart(FilePrefix):
    step: list[int]  # the first bytes after the header

class HeaderPlace(TypedDict):
    start: int
    length: int

class Progress(TypedDict):  # core/run/progress.py
    step: int
    tokens_seen: int
    loss: float | None
    best_val: float | None
    best_step: int
    evals_since_best: int
    accuracy: float | None
    best_right: int | None
    validation_due: bool
    history: list[Point]
    sample: str
    film: list[Frame]

class AdapterName(TypedDict):  # What adapters are called, and the sha256 of the weights that they are for
    name: str
    baseSha256: str

class Origin(TypedDict):  # What a run has to know to continue from a file, or from another session
    config: RunConfig
    progress: Progress
    slots: list[str]  # the names of what an optimizer kept
    adapter: AdapterName | None  # null: a whole model
    dtype: str  # of its weights: float32, float16, int8

class Piece(NamedTuple):  # Where a tensor is
    name: str
    places: list[int]  # of its arrays after the header, in bytes
    offset: int  # in the model's order, in floats
    size: int
    rows: int  # to transpose it to, or 0
    columns: int
    scaled: int  # how many rows have a scale each, or 0

class TableFacts(TypedDict):  # Where n-gram tables are in a file: docs/format.md
    at: int  # after the header, in bytes
    bitmap: int  # bytes that say which rows are stored
    rows: int  # of the model
    width: int
    stored: int  # rows

class LearntText(TypedDict):
    name: str
    sha256: str

class Front(Origin):  # All that a file says, and where its floats are
    leftOut: str  # a sentence on what was not understood, or nothing
    parameters: int
    floatBytes: Literal[2, 4]  # of each float in the file that is not scaled
    arrays: int  # of the file: w, and what an optimizer kept
    vectors: int  # of the state: w, and what its optimizer keeps
    taken: int  # how many of the file's arrays, from the front, are the state's
    sha256: str  # of the state, or nothing
    pieces: list[Piece]
    tables: TableFacts | None
    learnt: LearntText | None  # the text that the model learnt from, where the file says so
    damaged: str  # what to say of another digest,
    notFinite: str  # and, after its name, of a tensor with NaN in it

class ModelHeader(TypedDict):  # Of a .tinygpt file, as far as JavaScript reads it; docs/format.md has the rest
    rng: RngState
    includesOptimizerState: bool
    stateByteLength: int
    manifest: list[ManifestEntry]
    tables: NotRequired[TableHeader]

class ManifestEntry(TypedDict):  # A tensor, in the model's order
    name: str
    shape: list[int]
    floatOffset: int

class TableHeader(TypedDict):  # JavaScript counts the rows that are stored
    rows: int
    shape: list[int]

class RngState(TypedDict):
    step: int

class AdapterDescription(TypedDict):
    step: int

class AdapterHeader(TypedDict):  # Of a safetensors file of adapters
    key: str  # of the metadata
    description: AdapterDescription
    tensors: list[tuple[str, dict[str, Any]]]  # name, entry

Header = ModelHeader | AdapterHeader

class Merging(TypedDict):
    scale: float
    moves: list[tuple[int, int, int, int, int, int]]  # base, a, b, outputs, inputs, rank

class MergedRequest(AdapterName):
    config: RunConfig
    progress: Progress

class FileModule:
    def measure(self, request: Json[FilePrefix]) -> Json[HeaderPlace | Failed]: ...
    def front(self, request: Json[FileStart], header: str) -> Json[Front | Failed]: ...
    def alone(self, request: Json[FileStart], header: str, dtype: str) -> Json[ModelHeader]: ...
    def merging(self, config: Json[RunConfig]) -> Json[Merging]: ...
    def merged_header(self, request: Json[MergedRequest]) -> Json[ModelHeader]: ...

# --- a page of one file: tab/single.py

class WritingPlan(TypedDict):  # What such a page knows of its model: it has no Python
    front: Front
    header: HeaderPlace
    playbook: Playbook
    compact: bool  # whether programs read the weights as the file has them
    weights: list[Place]  # n-gram tables last
    exchanged: dict[str, Place]  # the tensors by which programs and page speak
    ctx: int
    room: int  # bytes in the ring that programs write to

class SingleModule:
    def writing_plan(self, request: Json[FileStart], header: str) -> Json[WritingPlan | Failed]: ...

# --- the Hugging Face Hub: tab/publish.py

class PublishFacts(TypedDict):
    repo: str
    title: str
    licence: str  # of the text that it learned from

class Published(TypedDict):
    card: str
    header: AdapterHeader  # of a safetensors file of the weights

class PublishModule:
    def published(self, request: Json[FileStart], header: str, facts: Json[PublishFacts]) -> Json[Published]: ...

# --- what is kept of runs: tab/shelf.py

class KeptText(LearntText):  # A text that is kept in the browser's storage
    bytes: int

class BaseName(TypedDict):  # The model that adapters are for
    title: str
    sha256: str

class Meta(TypedDict):  # What a run is called, and what it learns from
    title: str
    created: str  # ISO 8601
    text: KeptText
    forked: KeptStep | None
    base: NotRequired[BaseName]  # of adapters

class Weights(TypedDict):  # Where the weights are in a checkpoint, whose state is its end
    bytes: int  # of all but n-gram tables
    pieces: list[Stretch]
    tables: TableSizes | None  # what follows

class TableSizes(TypedDict):  # in bytes
    bitmap: int
    row: int
    square: int  # of a row, what the optimizer keeps

Stretch = tuple[int, int]  # start, length

class Salvage(Weights):  # How to make a file of the weights alone
    step: int
    rows: int  # of n-gram tables
    sha256: str
    header: ModelHeader

class KeptRecord(TypedDict):  # What a checkpoint's record says; JavaScript adds the digests, the date and `smooth`
    sequence: int
    step: int
    loss: float | None
    best: float | None
    tokens: int
    history: list[Point]
    validations: list[Point]
    sample: str
    film: list[Frame]
    config: RunConfig
    parameters: int
    engine: EngineName
    devices: list[str]  # what has computed it so far, in words

class KeepOrder(TypedDict):  # A state that is to be kept
    slot: int
    record: KeptRecord
    header: Header
    weights: Weights | None  # null: adapters'
    snapshot: bool
    drop: list[int]

class Found(TypedDict):  # What a run's folder holds; null where there is no such record
    records: list[str | None]
    snapshots: list[str | None]
    durable: bool

class FolderRequest(Found):
    id: str
    meta: list[str | None]
    bytes: int
    files: list[str]

class Stop(TypedDict):
    step: int
    loss: float | None

class ShelvedRun(TypedDict):  # A run as the library shows it
    id: str
    title: str
    created: str
    savedAt: str
    forked: KeptStep | None
    base: BaseName | None  # that it trains adapters for
    text: KeptText
    step: int
    steps: int
    loss: float | None
    best: float | None
    config: RunConfig
    parameters: int
    engine: EngineName
    history: list[Point]
    validations: list[Point]
    sample: str  # that it wrote last, or nothing
    stops: list[Stop]  # that one can return to, the last one among them
    bytes: int

class Damage(TypedDict):
    title: str | None  # where that can be read
    text: str  # what cannot be read, and what can be done
    model: bool  # whether there may be one to open

class RecoveredRequest(TypedDict):
    step: int
    kind: Literal["slot", "snapshot", "file", "weights"]
    newest: int | None
    log: bool

Difference = tuple[str, list[float | str]]  # label, values

class ShelfModule:
    def order_of(self, records: Json[list[str | None]]) -> Json[list[int]]: ...
    def meta_of(self, metas: Json[list[str | None]]) -> Json[int | None]: ...
    def copies_of(self, metas: Json[list[str | None]]) -> Json[tuple[list[int], int]]: ...  # slots, sequence
    def facts(self, request: Json[FolderRequest]) -> Json[ShelvedRun | None]: ...
    def damage(self, request: Json[FolderRequest]) -> Json[Damage]: ...
    def salvage(self, record: str) -> Json[Salvage | None]: ...
    def recovered(self, request: Json[RecoveredRequest]) -> str: ...
    def differences(self, configs: Json[list[RunConfig]]) -> Json[list[Difference]]: ...

# --- runs: tab/session.py, budget.py, estimate.py

class BaseFacts(TypedDict):
    config: RunConfig
    sha256: str

class ChosenBudget(TypedDict):  # What a run needs to know to end on time
    deadline: float
    prediction: list[float]
    text: list[float]
    aside: float
    end: float
    allSteps: float
    sampled: float
    frame: float
    film: float

class ChosenRequest(TypedDict):
    preset: str
    recipe: str
    changes: Changes
    budget: NotRequired[ChosenBudget]  # of a run that a Budget has chosen

class RunRequest(ChosenRequest):
    bytes: int | None  # of the text; null: the model only writes
    textName: NotRequired[str]  # of a task: the model is asked on the way
    prompt: NotRequired[str]
    origin: NotRequired[Origin]  # what to continue from
    base: NotRequired[BaseFacts]  # the model that adapters are for
    lora: NotRequired[Changes]  # of new adapters
    title: NotRequired[str]  # what they are called
    device: NotRequired[DeviceFacts]  # of the GPU to plan for; absent: plan for WebAssembly
    memory: NotRequired[dict[Literal["reported"], int | None]]  # bytes; absent: the GPU has its own
    kept: NotRequired[Found]

class Plan(TypedDict):
    doubt: str  # on whether the memory will do, or nothing
    bytes: int  # of memory
    config: RunConfig
    parameters: int
    compact: bool  # whether it takes weights as their file has them
    trainBytes: int
    valBytes: int
    advice: list[str]

StopReason = Literal["finished", "early-stop", "stopped", "diverged"]

class Ended(TypedDict):
    reason: StopReason
    step: int
    message: NotRequired[str]  # why it diverged

Written = tuple[list[int], float, bool]  # bytes, seconds since it was asked for, done

Likely = tuple[int, float]  # byte, probability

class Prompt(TypedDict):
    prompt: list[int]  # bytes: it may begin or end within a character
    settings: Changes  # SampleConfig's by name, over its defaults

class ToWrite(Prompt):
    type: Literal["write"]
    stop: NotRequired[str]  # the text ends there, where that is written

class ToWeigh(Prompt):
    type: Literal["weigh"]

class ToDo(TypedDict):
    type: Literal["save", "keep", "look"]

Asked = ToWrite | ToWeigh | ToDo

Fault = tuple[str, str]  # name, message

class Bridge:  # A player as tab/engine.py's TabPlayer calls it. Small memory crosses as hexadecimal digits
    def threads(self) -> int: ...
    def describe(self) -> str: ...
    async def write(self, places: Json[list[Place]], digits: str) -> None: ...
    async def put(self, places: Json[list[Place]], data: Bytes) -> None: ...
    async def read(self, places: Json[list[Place]]) -> str: ...  # digits
    async def take(self, places: Json[list[Place]]) -> Bytes | None: ...  # a copy; null: there is no memory for it
    async def run(self, mode: str, times: int) -> int: ...
    def close(self) -> None: ...

class PlayerWorker:  # What Python may ask of the page's worker wherever it opens a player
    async def open(self, playbook: Json[Playbook | GpuPlaybook]) -> Bridge: ...

class EngineWorker(PlayerWorker):  # And wherever it computes
    async def startValues(self, playbook: Json[Playbook], places: Json[list[Place]]) -> Bytes: ...
    def zeros(self, size: int) -> Bytes: ...
    def now(self) -> float: ...  # seconds
    def emit(self, event: Json[CoreEvent]) -> None: ...
    def stopping(self) -> bool: ...

class TrialWorker(EngineWorker):  # And while it tries something
    async def digest(self, places: Json[list[Place]]) -> str: ...  # the sha256 of what is there

class TrainingWorker(EngineWorker):  # And while it trains
    def waiting(self) -> bool: ...  # whether there are requests
    def requests(self) -> Json[list[Asked]]: ...  # and forget them
    async def save(self, header: Json[Header], places: Json[list[Place]]) -> None: ...
    async def keep(self, order: Json[KeepOrder], state: Bytes) -> Json[Fault | None]: ...
    async def kept(self, step: int) -> Bytes | None: ...  # the state of that step
    async def lend(self, places: Json[list[Place]]) -> None: ...  # the weights there are wanted outside
    def written(self, piece: Json[Written]) -> bool: ...  # whether more is wanted
    def weighed(self, likely: Json[list[Likely]]) -> None: ...
    def refused(self, message: str) -> None: ...

class Session:
    def plan(self) -> Json[Plan]: ...
    async def open(
        self, worker: TrainingWorker, train: Bytes, val: Bytes, state: Bytes | None, base: Bytes | None = None
    ) -> None: ...
    async def train(self) -> Json[Ended | Failed]: ...
    async def keep_end(self) -> None: ...  # the state that a run has ended with
    async def attend(self) -> None: ...
    def stands(self) -> Json[Origin]: ...
    async def state_places(self) -> Json[list[Place]]: ...  # the state of a model file, after its step
    def header_text(self) -> Json[Header]: ...

class SessionModule:
    def Session(self, request: Json[RunRequest]) -> Session: ...

class BudgetRequest(TypedDict):
    seconds: float
    bytes: int  # of the text
    presets: NotRequired[list[str]]  # to choose from; absent: all of which it is known what to expect
    changes: NotRequired[Changes]  # settings that stay as they are
    hardness: NotRequired[float]  # of the text, where it is known; absent: it is measured, which takes seconds
    device: NotRequired[DeviceFacts]

class Chosen(TypedDict):
    chosen: BudgetOption
    request: ChosenRequest

class Stopped(TypedDict):
    stopped: Literal[True]

class Budget:
    train_bytes: int

    def wanted(self) -> Json[list[list[Stretch]]]: ...  # of training part and held-out part; none: it is known
    async def choose(
        self,
        worker: TrialWorker,
        train: Bytes,
        val: Bytes,
        pieces: Json[list[list[list[int]]]],  # those stretches' bytes
    ) -> Json[Chosen | Stopped | Failed]: ...

class BudgetModule:
    def Budget(self, request: Json[BudgetRequest]) -> Budget: ...

class ModelInHand(TypedDict):
    config: RunConfig
    step: int

class EstimateRequest(TypedDict):
    preset: str
    recipe: str
    changes: Changes
    bytes: int
    device: NotRequired[DeviceFacts]
    inHand: ModelInHand | None  # the model that is continued or, with `lora`, taught; null: a new run
    lora: Changes | None

class Estimated(TypedDict):
    seconds: float  # of the whole run
    ms: float  # of a step

class Estimate:
    def plan(self) -> Json[Plan]: ...
    async def measure(self, worker: TrialWorker, train: Bytes, val: Bytes) -> Json[Estimated | Failed]: ...

class EstimateModule:
    def Estimate(self, request: Json[EstimateRequest]) -> Estimate: ...

class TeachingRequest(TypedDict):
    config: RunConfig
    lora: Changes
    bytes: int  # of the text

class Teaching(TypedDict):
    usual: RunConfig  # settings of such a run
    projections: list[str]  # that can be adapted
    trained: int  # parameters, and those that stay
    frozen: int
    problem: str  # a sentence on what cannot be

class AskedModule:
    def teaching(self, request: Json[TeachingRequest]) -> Json[Teaching]: ...

# --- texts: tab/texts.py

class AdviceRequest(TypedDict):
    preset: str
    recipe: str
    changes: Changes
    config: NotRequired[RunConfig]  # of the model to continue,
    lora: NotRequired[Changes]  # or of adapters for it
    timed: NotRequired[bool]  # its size is chosen when it begins
    bytes: int
    start: list[int]  # the text's first bytes

class DatasetRequest(TypedDict):  # What is null is inferred
    dataset: str
    config: str | None
    split: str | None
    column: str | None
    rowsPerPage: NotRequired[int]
    look: bool  # at what there is to choose from, or read
    budget: int  # bytes

class VisitRequest(DatasetRequest):
    token: bool  # whether there is one

class Reply(TypedDict):
    status: int  # 0: no answer came
    wait: float  # seconds, that it asks for

class Choices(TypedDict):  # What there is to choose from, and what is likely meant; no column where that is not clear
    dataset: str
    config: str
    split: str
    column: str | None
    configs: list[str]
    splits: list[str]  # of the config
    columns: list[str]
    total: int | None  # rows
    preview: str

class Description(TypedDict):
    description: str

class VisitStep(TypedDict):  # What is next, and what came of the last address
    address: NotRequired[str]
    wait: NotRequired[float]  # seconds, before that is asked
    text: NotRequired[str]
    size: NotRequired[int]
    rows: NotRequired[int]
    done: NotRequired[Choices | Description]

class Visit:
    def step(self, reply: Json[Reply] | Literal[""], body: str) -> Json[VisitStep | Failed]: ...

class TextsModule:
    def Visit(self, request: Json[VisitRequest]) -> Visit: ...
    def advice(self, request: Json[AdviceRequest]) -> Json[list[str]]: ...

# --- looking inside: tab/inside.py

class InsideFacts(TypedDict):
    window: int  # bytes that are looked into at once, at most
    longest: int  # bytes of a text
    parts: list[str]  # that can be scaled
    tensors: list[tuple[str, str]]  # name, mode
    attention: list[str]  # of these tensors, the softmax of each block,
    lenses: list[str]  # and the logits after each
    flow: list[tuple[str, str, str]]  # core/look/inside.py's Stop

Scale = tuple[str, float]  # part, factor

class Moves(TypedDict):
    scaled: list[tuple[int, int, int, int, float]]  # offset, rows, width, pitch, factor
    kept: list[tuple[int, int]]  # begin, end

class InsideRequest(TypedDict):
    config: RunConfig
    length: int
    mode: str
    tensors: list[str]

class SeenPlaces(TypedDict):
    losses: list[Place]
    tensors: list[tuple[str, list[int], list[Place]]]  # name, shape, places

class Inside:
    async def open(self, worker: PlayerWorker, weights: Bytes) -> Json[SeenPlaces]: ...
    async def run(self, window: Json[list[int]], weights: Bytes | None) -> None: ...

class InsideModule:
    def facts(self, config: Json[RunConfig]) -> Json[InsideFacts]: ...
    def moves(self, config: Json[RunConfig], length: int, scales: Json[list[Scale]]) -> Json[Moves]: ...
    def learnt(self, bytes: int, valFraction: float) -> int: ...  # of a corpus, from the front
    def Inside(self, request: Json[InsideRequest]) -> Inside: ...

# --- capsules: tab/capsules.py

RateRow = tuple[int, float, float]  # step, loss, lr

Retiming = tuple[int, int, int]  # step, before, steps

class CapsuleRequest(TypedDict):
    title: str
    text: KeptText
    config: RunConfig
    step: int
    tokensSeen: int
    engine: str
    devices: list[str]
    weights: str  # their sha256
    rows: list[RateRow]
    retimed: list[Retiming]

class NamedOrigin(Origin):
    name: str  # what the file is called

class ReplayRequest(TypedDict):
    capsule: str  # its file's text
    origin: NotRequired[NamedOrigin | None]  # null: its start
    steps: NotRequired[int | None]  # null: all that are left
    device: NotRequired[DeviceFacts]

class CapsuleFacts(TypedDict):  # What a capsule says of its run
    title: str
    model: str  # its shape, in words
    config: RunConfig
    text: KeptText
    trainBytes: int  # of the text, from its front, that are trained on
    device: str  # what computed it
    version: str
    steps: int
    curve: list[Point]

class KeptStep(TypedDict):  # A state that is kept of a run
    run: str
    title: str
    step: int

class Verdict(TypedDict):
    verdict: Literal["equal", "unproved", "different"]
    head: str
    text: str

class Replay:
    def facts(self) -> Json[CapsuleFacts]: ...
    def stops(self, runs: Json[list[ShelvedRun]]) -> Json[list[KeptStep]]: ...
    def check_text(self, sha256: str, size: int) -> None: ...
    async def run(self, worker: TrialWorker, text: Bytes, state: Bytes | None) -> Json[Verdict | Failed]: ...

class CapsulesModule:
    def made(self, request: Json[CapsuleRequest]) -> Json[dict[Literal["capsule"], dict[str, Any]] | Failed]: ...
    def Replay(self, request: Json[ReplayRequest]) -> Replay: ...

# --- this machine: tab/measure.py

class ReadingRequest(TypedDict):
    preset: str
    bytes: int
    device: NotRequired[DeviceFacts]

class ReadSteps(TypedDict):
    steps: int
    ms: float  # of each
    engine: str  # in words

class NamedReading(ReadSteps):
    name: EngineName

class ReportRequest(TypedDict):
    preset: str
    agent: str
    cores: int
    memory: int | None  # bytes
    gpu: WebGpu | None
    note: str
    readings: list[NamedReading]

class Measured(TypedDict):
    fields: list[tuple[str, str]]  # of the block to copy: name, value
    figures: dict[EngineName, float | None]  # ms per step

class Reading:
    async def read(self, worker: TrialWorker, text: Bytes) -> Json[ReadSteps]: ...

class MeasureModule:
    def plan(self, request: Json[dict[Literal["gpu"], WebGpu | None]]) -> Json[list[tuple[EngineName, int]]]: ...
    def Reading(self, request: Json[ReadingRequest]) -> Reading: ...
    def report(self, request: Json[ReportRequest]) -> Json[Measured]: ...

class Python:  # The modules of core/tab, by name
    asked: AskedModule
    budget: BudgetModule
    capsules: CapsulesModule
    estimate: EstimateModule
    file: FileModule
    inside: InsideModule
    measure: MeasureModule
    publish: PublishModule
    session: SessionModule
    shelf: ShelfModule
    single: SingleModule
    texts: TextsModule

# --- what the page is built with: tinygpt/site.py

class Knob(TypedDict):  # A setting: enough to draw an input for it
    section: Literal["model", "train", "lora", "sample"]
    name: str
    kind: Literal["int", "float", "text"]
    default: float | str
    low: float | None
    high: float | None
    choices: list[str] | None
    help: str
    label: str  # what the page calls it
    fixed: bool  # a model has it for life

class SitePreset(TypedDict):
    name: str
    parameters: int
    arenaBytes: int  # the memory that a run takes besides its text
    model: Changes
    train: Changes

class SiteRecipe(TypedDict):  # How a model of any size is made and trained
    name: str
    help: str
    presets: list[SitePreset]

class Survey(TypedDict):  # What a text is like
    surveyed: int  # bytes, from the front
    different: int  # bytes, of 256
    words: int
    vocabulary: int  # different words
    common: list[tuple[str, int]]  # word, times
    repeats: float  # the share of all stretches of 24 bytes that occurred before

class SiteCorpus(TypedDict):
    name: str
    title: str
    description: str
    file: str  # under the site's root, packed by gzip
    bytes: int
    sha256: str
    valFraction: float
    hardness: NotRequired[float]  # core/advice/hardness.py; of a task it is not known
    survey: Survey

class SiteDataset(TypedDict):  # A Hugging Face dataset that the catalog names
    name: str
    title: str
    description: str
    dataset: str
    config: str
    split: str
    column: str
    size: str
    licence: str
    language: str
    rows_per_page: int

class SettingGroup(TypedDict):  # What can be set of a run, under one heading
    title: str
    fields: list[str]  # of training

class SiteSpeed(TypedDict):  # How fast a preset's steps were on one of our machines, in a browser
    engine: EngineName
    machine: str
    points: list[tuple[str, float]]  # preset, ms

class Site(TypedDict):
    version: str
    defaultPreset: str
    defaultRecipe: str
    recipes: list[SiteRecipe]
    knobs: list[Knob]
    groups: list[SettingGroup]
    modelOptions: list[str]  # the settings that say what a model is made of
    projections: list[str]  # that adapters may be for, some of which a model may not have
    untrainedLoss: float  # of a model that knows nothing: ln 256
    speeds: list[SiteSpeed]
    benchPreset: str  # that this machine is measured with
    corpora: list[SiteCorpus]  # the default first
    tasks: list[SiteCorpus]  # texts of questions and answers
    catalog: list[SiteDataset]
    hubServer: str  # whom it is asked of
    hubBudget: int  # bytes

class SiteModel(TypedDict):  # A bundled model
    name: str
    title: str
    parameters: int
    bytes: int
    file: str  # under the site's root
    weightsSha256: str  # by which adapters know it
    preset: str
    config: RunConfig
