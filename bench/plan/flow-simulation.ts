/**
 * @file Plays one training step flow by flow, with max–min fairness on every link: what predictions of steps are held against. Imports nothing of the
 * planner.
 *
 * Every unit works through its own 1F1B order; it starts an operation when its input is there, and sends the result before it goes on. A flow takes the
 * latency of its way, then its bytes at the rate that progressive filling gives it, anew whenever a flow starts or ends (Bertsekas and Gallager, §6.5.2).
 * Before that it exchanges tokens with those with which it shares out experts, in one flow that crosses the way to each of them; before that, those that share out a
 * sequence wait for one another, and pass keys and values around: each edge of their ring a flow, and nobody goes on before the last has ended.
 * When all replicas of a stage are done, each edge of their ring is a flow, then each edge of the rings of those that have the same experts; when the rings of the first and the last stage are, each replica adds up a
 * tied embedding over both ways. Units of a host with NVLink have a port of their own each way, those of a host without share one bus, on which the ring
 * of a host's members is one flow. Cost: events × links × flows.
 */

import { keyValuePhase, ringOrder } from "./simulated-ring.ts";
import { ordered, type Operation } from "./simulated-schedule.ts";
import type { Path, SimulatedStep, Wires, World } from "./simulated-step.ts";

export interface Simulated {
  readonly stepMs: number;
  /** Bytes ÷ rate of the link that was busy longest. */
  readonly busiestLinkMs: number;
}

interface Flow {
  readonly links: readonly number[];
  left: number;
  rate: number;
  readonly done: () => void;
}

/** Of a flow's bytes; what is left then is rounding. */
const EPSILON = 1e-9;

export function simulateStep(step: SimulatedStep): Simulated {
  const wires = wiring(step);
  const carried = new Map<number, number>();
  const flows = new Set<Flow>();
  const timers: { at: number; run: () => void }[] = [];
  let now = 0;
  const after = (ms: number, run: () => void): void => void timers.push({ at: now + ms, run });
  const send: World["send"] = ({ links, latencyMs }, bytes, done) => {
    for (const link of links) carried.set(link, (carried.get(link) ?? 0) + bytes);
    after(latencyMs, () => {
      if (bytes <= 0 || links.length === 0) done();
      else flows.add({ links, left: bytes, rate: 0, done });
    });
  };
  startPipelines(step, { wires, after, send });
  while (timers.length > 0 || flows.size > 0) {
    fill(flows, wires.gbs);
    let next = Math.min(...timers.map(({ at }) => at));
    for (const { left, rate } of flows) next = Math.min(next, now + left / rate);
    for (const flow of flows) flow.left -= flow.rate * (next - now);
    now = next;
    const ended = [...flows].filter(({ left, rate }) => left <= EPSILON * rate * (1 + now));
    for (const flow of ended) flows.delete(flow);
    const due = timers.filter(({ at }) => at <= now);
    if (due.length > 0) timers.splice(0, timers.length, ...timers.filter(({ at }) => at > now));
    for (const { done } of ended) done();
    for (const { run } of due) run();
  }
  const busy = [...carried].map(([link, bytes]) => bytes / bytesPerMs(wires.gbs(link)));
  return { stepMs: now, busiestLinkMs: Math.max(0, ...busy) };
}

const bytesPerMs = (gbs: number): number => gbs * 1e6;

/** Links get numbers as they are named: card out and in of each host, its bus, ports of each cell, links between clusters. */
function wiring({ hosts, cellHosts, fabric, between, width }: SimulatedStep): Wires {
  const numbers = new Map<string, number>();
  const rates: number[] = [];
  const link = (name: string, gbs: number): number => {
    const held = numbers.get(name);
    if (held !== undefined) return held;
    numbers.set(name, rates.length);
    return rates.push(gbs) - 1;
  };
  const path = (fromCell: number, toCell: number): Path => {
    const [a = -1, b = -1] = [cellHosts[fromCell], cellHosts[toCell]];
    const [from, to] = [hosts[a], hosts[b]];
    if (from === undefined || to === undefined) throw new Error("a cell has no host");
    if (a === b)
      return {
        links: from.hasNvlink
          ? [
              link(`port out ${String(fromCell)}`, from.insideGbs * width),
              link(`port in ${String(toCell)}`, from.insideGbs * width),
            ]
          : [link(`bus ${String(a)}`, from.insideGbs)],
        latencyMs: from.insideMs,
      };
    const cards = [
      link(`card out ${String(a)}`, fabric(from.cluster).gbs),
      link(`card in ${String(b)}`, fabric(to.cluster).gbs),
    ];
    if (from.cluster === to.cluster)
      return { links: cards, latencyMs: fabric(from.cluster).latencyMs };
    const wan = between(from.cluster, to.cluster);
    return {
      links: [...cards, link(`from ${from.cluster} to ${to.cluster}`, wan.gbs)],
      latencyMs: Math.max(
        wan.latencyMs,
        fabric(from.cluster).latencyMs,
        fabric(to.cluster).latencyMs,
      ),
    };
  };
  return {
    gbs: (number) => rates[number] ?? 0,
    path,
  };
}

/** Progressive filling: the link with the least for each of its open flows fixes theirs, until all flows have a rate. */
function fill(flows: ReadonlySet<Flow>, gbsOf: (link: number) => number): void {
  const open = new Set(flows);
  const room = new Map<number, number>();
  const users = new Map<number, number>();
  for (const { links } of flows)
    for (const link of links) {
      room.set(link, bytesPerMs(gbsOf(link)));
      users.set(link, (users.get(link) ?? 0) + 1);
    }
  while (open.size > 0) {
    let [tightest, share] = [-1, Infinity];
    for (const [link, count] of users) {
      const each = count > 0 ? (room.get(link) ?? 0) / count : Infinity;
      if (each < share) [tightest, share] = [link, each];
    }
    for (const flow of open) {
      if (!flow.links.includes(tightest)) continue;
      flow.rate = share;
      open.delete(flow);
      for (const link of flow.links) {
        room.set(link, (room.get(link) ?? 0) - share);
        users.set(link, (users.get(link) ?? 0) - 1);
      }
    }
  }
}

function startPipelines(step: SimulatedStep, world: World): void {
  const { stages, replicas, runs, cellHosts, sendBytes } = step;
  const arrived = new Set<string>();
  const waiting = new Map<string, () => void>();
  const arrive = (key: string): void => {
    arrived.add(key);
    const run = waiting.get(key);
    waiting.delete(key);
    run?.();
  };
  const left = Array.from({ length: stages }, () => replicas);
  const gradients = gradientPhase(step, world);
  const keyValues = keyValuePhase(step, world);
  for (let cell = 0; cell < stages * replicas; cell += 1) {
    const stage = Math.floor(cell / replicas);
    const host = cellHosts[cell] ?? -1;
    const list = ordered(stage, step);
    const work = (at: number): void => {
      const operation = list[at];
      if (operation === undefined) {
        left[stage] = (left[stage] ?? 0) - 1;
        if (left[stage] === 0) gradients(stage);
        return;
      }
      const [kind, microBatch, run] = operation;
      const needed = `${kind} ${String(cell)} ${String(run)} ${String(microBatch)}`;
      const hasInput = kind === "F" ? run > 0 : run < stages * runs - 1;
      const compute = (): void => {
        const ms = kind === "F" ? step.forwardMs(run, host) : step.backwardMs(run, host);
        world.after(ms, () => {
          keyValues({ cell, kind, run }, () => {
            exchange(step, { world, cell, kind, run }, () => {
              handOn();
            });
          });
        });
        const handOn = (): void => {
          const toRun = kind === "F" ? run + 1 : run - 1;
          const to = (toRun % stages) * replicas + (cell % replicas);
          if (toRun < 0 || toRun >= stages * runs) {
            work(at + 1);
            return;
          }
          const bytes = sendBytes[kind === "F" ? run : run - 1] ?? 0;
          world.send(world.wires.path(cell, to), bytes, () => {
            arrive(`${kind} ${String(to)} ${String(toRun)} ${String(microBatch)}`);
            work(at + 1);
          });
        };
      };
      if (hasInput && !arrived.has(needed)) waiting.set(needed, compute);
      else compute();
    };
    world.after(0, () => {
      work(0);
    });
  }
}

function exchange(
  { experts, exchanges }: SimulatedStep,
  {
    world,
    cell,
    kind,
    run,
  }: {
    readonly world: World;
    readonly cell: number;
    readonly kind: Operation[0];
    readonly run: number;
  },
  done: () => void,
): void {
  const { forward, backward, calls } = exchanges[run] ?? NOTHING;
  if (forward === 0) {
    done();
    return;
  }
  const first = Math.floor(cell / experts) * experts;
  const paths = Array.from({ length: experts }, (_, at) => first + at)
    .filter((peer) => peer !== cell)
    .map((peer) => world.wires.path(cell, peer));
  const rounds = kind === "F" ? calls : (calls * backward) / forward;
  const latencyMs = rounds * Math.max(...paths.map((path) => path.latencyMs));
  const links = paths.flatMap((path) => path.links);
  world.send({ links, latencyMs }, kind === "F" ? forward : backward, done);
}

const NOTHING = { forward: 0, backward: 0, calls: 0 };

/** Called with each stage whose replicas are done. */
function gradientPhase(step: SimulatedStep, world: World): (stage: number) => void {
  const { stages, replicas, tiedBytes } = step;
  const { wires } = world;
  let ends = 0;
  const isEnd = (stage: number): boolean => stage === 0 || stage === stages - 1;
  const tie = (): void => {
    for (let replica = 0; replica < replicas; replica += 1) {
      const last = (stages - 1) * replicas + replica;
      for (const [from, to] of [
        [replica, last],
        [last, replica],
      ] as const) {
        const { links, latencyMs } = wires.path(from, to);
        world.send({ links, latencyMs: 2 * latencyMs }, tiedBytes, () => undefined);
      }
    }
  };
  const ended = (stage: number): void => {
    if (!isEnd(stage) || stages === 1 || tiedBytes === 0) return;
    ends += 1;
    if (ends === 2) tie();
  };
  return (stage) => {
    if (replicas === 1) {
      ended(stage);
      return;
    }
    const all = Array.from({ length: replicas }, (_, at) => stage * replicas + at);
    around(ringOrder(step, all), step.ringBytes[stage] ?? 0, () => {
      const { experts } = step;
      const members = replicas / experts;
      const bytes = ((members - 1) / members) * (step.expertBytes[stage] ?? 0);
      let open = bytes === 0 ? 0 : experts;
      if (open === 0) ended(stage);
      for (let part = 0; part < experts && bytes > 0; part += 1) {
        const same = all.filter((_, replica) => replica % experts === part);
        around(ringOrder(step, same), bytes, () => {
          open -= 1;
          if (open === 0) ended(stage);
        });
      }
    });
  };
  function around(cells: readonly number[], bytes: number, done: () => void): void {
    let open = cells.length;
    const paths = cells.map((cell, at) => wires.path(cell, cells[(at + 1) % cells.length] ?? cell));
    const onceAroundMs = paths.reduce((sum, { latencyMs }) => sum + latencyMs, 0);
    const finish = (): void => {
      open -= 1;
      if (open > 0) return;
      world.after(2 * step.ringRounds * onceAroundMs, done);
    };
    const isOnBus = new Set<number>();
    for (const { links } of paths) {
      const [only] = links;
      const isBus = links.length === 1 && only !== undefined;
      if (isBus && isOnBus.has(only)) {
        finish();
        continue;
      }
      if (isBus) isOnBus.add(only);
      world.send({ links, latencyMs: 0 }, bytes, finish);
    }
  }
}
