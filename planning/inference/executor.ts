/**
 * @file Executes a plan: algorithm 1 of SortingHat, event by event, on devices that are simulated unless others are given.
 *
 * One thread per bus copies parameters in order (CopyParam). One thread per GPU takes subgraphs in order, waits for parameters and inputs,
 * fetches missing ones over peer-to-peer streams, then runs (ExecSubgraph). Contention is simulated: copies share wires, direct reads use
 * the bus, a stream does one copy at a time. Kernels vary by `noise`. The memory of each GPU is counted at every moment. The executor judges
 * the planner's estimate and every solver's answer, so it shares no code with either, only the tables of times and sizes.
 * Cost: O(events × log events).
 */

import type {
  InferencePlan,
  PlannedCopy,
  PlannedSubgraph,
} from "../../domain/model/inference-plan.ts";
import type { PeerWay } from "../../domain/model/inference-host.ts";
import type { Random } from "../../lib/random.ts";
import { memoryBook } from "./memory-book.ts";
import type { PlanningProblem } from "./problem.ts";
import { listAt } from "./problem.ts";
import { clock, wires, type Clock, type Wires } from "./transfers.ts";

export interface Executed {
  readonly latencyMs: number;
  /** The most that each GPU held at any moment. */
  readonly peakBytes: readonly number[];
  readonly spans: readonly Span[];
}

/** One bar of a timeline: the activity of a GPU, a bus or a link, with its start and end. */
export interface Span {
  readonly lane: {
    readonly kind: "gpu" | "bus" | "link";
    readonly index: number;
    readonly to?: number;
  };
  readonly name: string;
  readonly startMs: number;
  readonly endMs: number;
}

export interface ExecuteOptions {
  /** Standard deviation of a kernel's time as a share of it. */
  readonly noise?: number;
  /** The random stream of the noise; absent: no noise. */
  readonly random?: Random;
  /** Whether buses serve one copy at a time (algorithm 1), or each GPU queues its own copies (ablation). */
  readonly copyQueues?: "per bus" | "per gpu";
  /** What the plan runs on; absent: simulated, in simulated time. */
  readonly devices?: Devices;
}

/** The GPUs and wires of one host, for one run: kernels take the time that `after` keeps, copies that of their wires. */
export interface Devices extends Clock, Wires {}

/** Set once; it resumes all threads that wait for it. */
interface Mark {
  isSet: boolean;
  readonly waiting: (() => void)[];
}

const mark = (isSet = false): Mark => ({ isSet, waiting: [] });

function setMark(each: Mark): void {
  if (each.isSet) return;
  each.isSet = true;
  for (const then of each.waiting.splice(0)) then();
}

export function execute(
  problem: PlanningProblem,
  plan: InferencePlan,
  { noise = 0.05, random, copyQueues = "per bus", devices }: ExecuteOptions = {},
): Executed {
  const { gpuCount, host, busOf, busMsPerByte, parameterBytes, outputBytes } = problem;
  const time = devices ?? simulatedDevices(problem);
  const network: Wires = time;
  const spans: Span[] = [];
  const busPace = (bus: number): number => 1 / (busMsPerByte[bus] ?? 1);
  const operationName = (operation: number): string =>
    problem.graph.operations[problem.graphIndex[operation] ?? 0]?.id ?? String(operation);
  const numberOf = new Map<number, number>();
  for (const [number, index] of problem.graphIndex.entries()) numberOf.set(index, number);
  const gpuOf = new Int32Array(problem.operationCount);
  for (const [gpu, queue] of plan.gpuQueues.entries())
    for (const { operations } of queue)
      for (const index of operations) gpuOf[numberOf.get(index) ?? 0] = gpu;

  for (const [operation, gpu] of gpuOf.entries()) {
    const first = listAt(problem.together, operation)[0] ?? operation;
    if (gpuOf[first] !== gpu)
      throw new Error(
        `the plan parts the group of ${operationName(first)} and ${operationName(operation)}, which run on one GPU`,
      );
  }

  // Drawn by operation, not in order of execution, so that two plans of one model get the same noise.
  const factor = Float64Array.from({ length: problem.operationCount }, () =>
    random === undefined ? 1 : Math.max(0.2, 1 + noise * random.normal()),
  );
  const book = memoryBook(problem, plan, { gpuOf, numberOf });
  const executed = Array.from({ length: problem.operationCount }, () => mark());
  const onGpu = new Map<string, Mark>();
  const landedAt = new Map<number, number>();
  for (const { parameter, gpu } of plan.resident) {
    onGpu.set(`${parameter} ${gpu}`, mark(true));
    if (!landedAt.has(parameter)) landedAt.set(parameter, gpu);
  }
  for (const copy of plan.busQueues.flat()) {
    landedAt.set(copy.parameter, copy.gpu);
    for (const gpu of [copy.gpu, ...copy.forwards]) onGpu.set(`${copy.parameter} ${gpu}`, mark());
  }
  const resultOn = new Map<string, Mark>();
  const streamTail = new Map<string, Mark>();

  /** One copy between two GPUs on their stream; the mark is set when it has arrived. */
  const peerCopy = (from: number, to: number, what: { name: string; bytes: number }): Mark => {
    const arrived = mark();
    const stream = `${from} ${to}`;
    const before = streamTail.get(stream) ?? mark(true);
    streamTail.set(stream, arrived);
    const way = host.peers[from]?.[to] ?? { kind: "staged" };
    onceSet(before, () => {
      const startMs = time.nowMs();
      const done = (): void => {
        spans.push({
          lane: { kind: "link", index: from, to },
          name: what.name,
          startMs,
          endMs: time.nowMs(),
        });
        setMark(arrived);
      };
      const bytesPerMs = 1 / (problem.peerMsPerByte[from * gpuCount + to] ?? 1);
      time.after(problem.copyMs, () => {
        const [up, down] = [`up ${busOf[from]}`, `down ${busOf[to]}`];
        if (way.kind === "staged") {
          const second = {
            bytes: what.bytes,
            bytesPerMs: busPace(busOf[to] ?? 0),
            wires: [down],
            done,
          };
          const first = { ...second, bytesPerMs: busPace(busOf[from] ?? 0), wires: [up] };
          network.start({ ...first, done: () => network.start(second) });
        } else
          network.start({ bytes: what.bytes, bytesPerMs, wires: peerWires(way, from, to), done });
      });
    });
    return arrived;
  };
  const peerWires = (way: PeerWay, from: number, to: number): string[] => {
    if (way.kind === "pcie") return [`up ${busOf[from]}`, `down ${busOf[to]}`];
    return way.kind === "nvswitch" ? [`out ${from}`, `in ${to}`] : [`link ${from} ${to}`];
  };
  const parameterName = (parameter: number): string =>
    problem.graph.parameters[parameter]?.id ?? String(parameter);

  /** CopyParam: one parameter after the other. */
  const copyParameters = (bus: number, queue: readonly PlannedCopy[], at = 0): void => {
    const copy = queue[at];
    if (copy === undefined) return;
    const { parameter, gpu, forwards } = copy;
    const bytes = parameterBytes[parameter] ?? 0;
    const name = parameterName(parameter);
    const startMs = time.nowMs();
    book.hold(gpu, bytes);
    const done = (): void => {
      spans.push({ lane: { kind: "bus", index: bus }, name, startMs, endMs: time.nowMs() });
      setMark(onGpu.get(`${parameter} ${gpu}`) ?? mark());
      for (const target of forwards) {
        book.hold(target, bytes);
        const arrived = peerCopy(gpu, target, { name, bytes });
        onceSet(arrived, () => {
          setMark(onGpu.get(`${parameter} ${target}`) ?? mark());
          book.forwarded(parameter, gpu);
        });
      }
      copyParameters(bus, queue, at + 1);
    };
    network.start({ bytes, bytesPerMs: busPace(bus), wires: [`down ${bus}`], done });
  };

  /** ExecSubgraph: a thread as a generator that yields each mark that it waits for. */
  function* runQueue(gpu: number, queue: readonly PlannedSubgraph[]): Generator<Mark, void> {
    for (const subgraph of queue) {
      const operations = subgraph.operations.map((index) => numberOf.get(index) ?? 0);
      const inside = new Set(operations);
      const arriving: Mark[] = [];
      if (!subgraph.isDirect) {
        for (const parameter of operations.flatMap((each) => [
          ...listAt(problem.parametersOf, each),
        ])) {
          const here = `${parameter} ${gpu}`;
          const from = landedAt.get(parameter);
          const planned = onGpu.get(here);
          if (planned !== undefined) yield planned;
          else if (from !== undefined) {
            yield onGpu.get(`${parameter} ${from}`) ?? mark(true);
            const bytes = parameterBytes[parameter] ?? 0;
            book.hold(gpu, bytes);
            const arrived = peerCopy(from, gpu, { name: parameterName(parameter), bytes });
            onGpu.set(here, arrived);
            arriving.push(arrived);
          }
        }
      }
      for (const input of operations.flatMap((each) => [...listAt(problem.inputs, each)])) {
        if (inside.has(input)) continue;
        yield executed[input] ?? mark(true);
        const from = gpuOf[input] ?? 0;
        if (from === gpu) continue;
        const there = `${input} ${gpu}`;
        let arrived = resultOn.get(there);
        if (arrived === undefined) {
          book.resultComes(input, gpu);
          arrived = peerCopy(from, gpu, {
            name: operationName(input),
            bytes: outputBytes[input] ?? 0,
          });
          onceSet(arrived, () => book.resultSent(input));
          resultOn.set(there, arrived);
        }
        arriving.push(arrived);
      }
      yield* arriving;
      for (const operation of operations) yield runKernel(operation, gpu, subgraph.isDirect);
      for (const operation of operations) setMark(executed[operation] ?? mark());
    }
  }
  const runKernel = (operation: number, gpu: number, isDirect: boolean): Mark => {
    const finished = mark();
    const startMs = time.nowMs();
    const cell = operation * gpuCount + gpu;
    const isReading = isDirect && listAt(problem.parametersOf, operation).length > 0;
    const usual = (isReading ? problem.directMs[cell] : problem.kernelMs[cell]) ?? 0;
    book.runs(operation, gpu);
    let open = isReading ? 2 : 1;
    const part = (): void => {
      open -= 1;
      if (open > 0) return;
      spans.push({
        lane: { kind: "gpu", index: gpu },
        name: operationName(operation),
        startMs,
        endMs: time.nowMs(),
      });
      book.ran(operation, gpu);
      setMark(finished);
    };
    time.after(usual * (factor[operation] ?? 1), part);
    if (isReading) {
      const bus = busOf[gpu] ?? 0;
      const bytes = problem.directBytes[operation] ?? 0;
      network.start({ bytes, bytesPerMs: busPace(bus), wires: [`down ${bus}`], done: part });
    }
    return finished;
  };

  for (const [bus, queue] of plan.busQueues.entries()) {
    if (copyQueues === "per bus") copyParameters(bus, queue);
    else
      for (const gpu of host.gpus.keys())
        copyParameters(
          bus,
          queue.filter((copy) => copy.gpu === gpu),
        );
  }
  for (const [gpu, queue] of plan.gpuQueues.entries()) step(runQueue(gpu, queue));
  time.run();
  const stuck = executed.findIndex(({ isSet }) => !isSet);
  if (stuck >= 0) throw new Error(`the plan waits for itself before ${operationName(stuck)}`);
  return { latencyMs: spans.reduce(lastKernel, 0), peakBytes: book.peakBytes(), spans };
}

function simulatedDevices(problem: PlanningProblem): Devices {
  const time = clock();
  return { ...time, ...wires(time, wireCapacity(problem)) };
}

/** Bytes per millisecond of each wire, by the names that the executor gives them. */
export const wireCapacity =
  ({ gpuCount, busMsPerByte, peerMsPerByte }: PlanningProblem) =>
  (wire: string): number => {
    const [kind, end = "", other = ""] = wire.split(" ");
    if (kind === "down" || kind === "up") return 1 / (busMsPerByte[Number(end)] ?? 1);
    const to = kind === "link" ? Number(other) : (Number(end) + 1) % gpuCount;
    return 1 / (peerMsPerByte[Number(end) * gpuCount + to] ?? 1);
  };

const lastKernel = (latest: number, { lane, endMs }: Span): number =>
  lane.kind === "gpu" ? Math.max(latest, endMs) : latest;

function onceSet(each: Mark, then: () => void): void {
  if (each.isSet) then();
  else each.waiting.push(then);
}

/** Runs a thread until it has to wait. */
function step(thread: Generator<Mark, void>): void {
  for (let next = thread.next(); next.done !== true; next = thread.next()) {
    if (next.value.isSet) continue;
    next.value.waiting.push(() => step(thread));
    return;
  }
}
