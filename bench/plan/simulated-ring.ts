/** @file The order of a ring in the flow simulation, and keys and values that go around one. Imports nothing of the planner. */

import type { Operation } from "./simulated-schedule.ts";
import type { SimulatedStep, World } from "./simulated-step.ts";

interface Passed {
  readonly cell: number;
  readonly kind: Operation[0];
  readonly run: number;
}

/** Called by each unit with its pass: those that share out a sequence wait for one another, and for the last edge of their ring. */
export function keyValuePhase(
  step: SimulatedStep,
  { wires, send }: World,
): (pass: Passed, done: () => void) => void {
  const { contexts, replicas } = step;
  const arrived = new Map<string, (() => void)[]>();
  return ({ cell, kind, run }, done) => {
    const { forward, backward, calls } = step.keyValues[run] ?? NOTHING;
    if (forward === 0) {
      done();
      return;
    }
    const [stage, group] = [Math.floor(cell / replicas), Math.floor((cell % replicas) / contexts)];
    const key = `${String(stage)} ${String(group)}`;
    const here = [...(arrived.get(key) ?? []), done];
    arrived.set(key, here);
    if (here.length < contexts) return;
    arrived.delete(key);
    const first = stage * replicas + group * contexts;
    const ring = ringOrder(
      step,
      Array.from({ length: contexts }, (_, at) => first + at),
    );
    const paths = ring.map((from, at) => wires.path(from, ring[(at + 1) % contexts] ?? from));
    // The edges over a bus are one flow.
    const flows = paths.filter(
      ({ links: [link, ...more] }, at) =>
        more.length > 0 ||
        paths.findIndex(({ links }) => links.length === 1 && links[0] === link) === at,
    );
    const rounds = kind === "F" ? calls : (calls * backward) / forward;
    const longestMs = Math.max(...flows.map(({ latencyMs }) => latencyMs));
    let open = flows.length;
    for (const { links } of flows)
      send({ links, latencyMs: rounds * longestMs }, kind === "F" ? forward : backward, () => {
        open -= 1;
        if (open === 0) for (const goOn of here) goOn();
      });
  };
}

const NOTHING = { forward: 0, backward: 0, calls: 0 };

/** Host after host, cluster after cluster as they first appear, each followed by the one that it reaches fastest. */
export function ringOrder(
  { hosts, cellHosts, between }: SimulatedStep,
  members: readonly number[],
): readonly number[] {
  const cells = [...members];
  const clusterOf = (cell: number): string => hosts[cellHosts[cell] ?? -1]?.cluster ?? "";
  const open = new Set(cells.map(clusterOf));
  const order: string[] = [];
  let at = clusterOf(cells[0] ?? 0);
  while (open.size > 0) {
    order.push(at);
    open.delete(at);
    const from = at;
    const [fastest] = [...open].sort((a, b) => between(from, b).gbs - between(from, a).gbs);
    at = fastest ?? at;
  }
  const seen = [...new Set(cells.map((cell) => cellHosts[cell] ?? -1))];
  const rank = (cell: number): number =>
    order.indexOf(clusterOf(cell)) * seen.length + seen.indexOf(cellHosts[cell] ?? -1);
  return cells.sort((a, b) => rank(a) - rank(b) || a - b);
}
