/** @file Operators of a world: they look after hosts, hold queues, change the fleet file and mend the ledger, each order a call that may get lost. */

import type { FleetShape } from "../domain/fleet/fleet.ts";
import type { QueuePart } from "../domain/lease/queue-part.ts";
import { tenantId, type HostId } from "../domain/values/ids.ts";
import { fullMask } from "../lib/bits.ts";
import type { OperatorOrder } from "../machines/fleet/events.ts";
import {
  refuseDescription,
  refuseHosts,
  refuseQueueOrder,
  refuseRules,
  type OrderRefusal,
} from "../machines/fleet/orders.ts";
import { refuseGpus, refuseOutdatedGpus } from "../machines/fleet/gpu-orders.ts";
import { refuseRepair } from "../machines/fleet/repairs.ts";
import type { FleetState } from "../machines/fleet/state.ts";
import { NEWEST_RULES } from "../scheduling/ledger/ledger.ts";
import { drainedMask } from "../scheduling/ledger/rules/gpu-drains.ts";
import type { Host } from "./hosts/host.ts";
import { sleep, type Process, type Task } from "./kernel/process.ts";
import type { Order } from "./settings.ts";
import type { FleetRun } from "./shells/fleet.ts";
import type { Site } from "./shells/site.ts";

export interface Operators {
  readonly site: Site;
  readonly client: Process;
  readonly hosts: ReadonlyMap<HostId, Host>;
  readonly shape: FleetShape;
  readonly fleet: () => FleetRun | undefined;
  /** Turns a host off, so that an operator can vouch for it, and on again. */
  readonly turnOff: (host: Host) => void;
  readonly turnOn: (host: Host) => void;
}

const RETRY_MS = 2_000;
const MOST_WAITS = 5;
const BY = { by: "somebody" };

export function* orderFleet(
  people: Operators,
  { kind, target, forMs }: Order,
  host: Host,
): Task<void> {
  const { kernel } = people.site;
  switch (kind) {
    case "drain":
      yield* updateFleet(people, { kind, hosts: [host.id], reason: "repair" });
      yield* sleep(kernel, forMs);
      return yield* updateFleet(people, { kind: "undrain", hosts: [host.id] });
    case "drain-gpus": {
      const gpus = [{ host: host.id, mask: 1 + (target % fullMask(host.gpuCount)) }];
      yield* updateFleet(people, { kind, gpus, reason: "repair" });
      yield* sleep(kernel, forMs);
      return yield* updateFleet(people, { kind: "undrain-gpus", gpus });
    }
    case "fence":
      people.turnOff(host);
      yield* sleep(kernel, RETRY_MS);
      yield* updateFleet(people, { kind, hosts: [host.id] });
      yield* sleep(kernel, forMs);
      return people.turnOn(host);
    case "configure":
      return yield* updateFleet(people, { kind, shape: changed(people.shape, target) });
    case "limits": {
      const shape = lowered(people.shape, target);
      yield* updateFleet(people, { kind: "configure", shape });
      yield* sleep(kernel, forMs);
      return yield* updateFleet(people, { kind: "configure", shape: people.shape });
    }
    case "upgrade":
      return yield* updateFleet(people, { kind, rules: NEWEST_RULES });
    case "hold-queue": {
      const queue = QUEUES[target % QUEUES.length] ?? { kind: "fleet" };
      const isDraining = target % 3 === 0;
      yield* updateFleet(people, { kind, queue, isDraining, ...BY, reason: undefined });
      yield* sleep(kernel, forMs);
      return yield* updateFleet(people, { kind: "release-queue", queue });
    }
    case "repair":
    case "repair-all": {
      const choice = doubts(people, target, kind === "repair-all" ? Infinity : 1);
      if (choice !== undefined) yield* updateFleet(people, choice);
      return;
    }
    default:
      return;
  }
}

const QUEUES: readonly QueuePart[] = [
  { kind: "fleet" },
  { kind: "class", class: "training" },
  { kind: "tenant", tenant: tenantId("red") },
];

/** So many leases, one request and all reservations; undefined where the ledger has nothing. */
function doubts({ fleet }: Operators, by: number, most: number): OperatorOrder | undefined {
  const { leases, requests, reservations } = fleet()?.state()?.ledger ?? {};
  const pick = <Id>(ids: readonly Id[], count = 1): readonly Id[] =>
    count > 1 ? ids : ids.slice(by % Math.max(1, ids.length)).slice(0, 1);
  const choice = {
    leases: pick([...(leases?.keys() ?? [])], most),
    requests: pick([...(requests?.keys() ?? [])]),
    reservations: [...(reservations?.keys() ?? [])],
  };
  if (Object.values(choice).every((ids) => ids.length === 0)) return undefined;
  return { kind: "repair", key: `repair-${by}`, ...BY, ...choice };
}

/** Fewer places, and less of everything for each tenant. */
const lowered = (shape: FleetShape, by: number): FleetShape => ({
  ...shape,
  tenants: shape.tenants.map((tenant) => ({
    ...tenant,
    quota: Object.fromEntries(Object.keys(tenant.quota).map((type) => [type, by % 3])),
  })),
  ...(shape.policy && { policy: { ...shape.policy, places: 1 + (by % 3) } }),
});

/** Other places and a longer silence. */
const changed = (shape: FleetShape, by: number): FleetShape => ({
  ...shape,
  ...(shape.policy && { policy: { ...shape.policy, places: 2 + (by % 20) } }),
});

/** Nothing is held, and the limits are as they were drawn. */
export function* resetFleetSettings(people: Operators): Task<void> {
  for (const queue of QUEUES) yield* updateFleet(people, { kind: "release-queue", queue });
  yield* updateFleet(people, { kind: "configure", shape: people.shape });
}

/** Hosts and GPUs that nobody means to be drained any more: of a fleet that was ended an order to undrain may be lost, and an agent may never come back. */
export function* undrainLeft(people: Operators): Task<void> {
  const { hosts } = people.fleet()?.state()?.ledger ?? {};
  for (const { id } of people.hosts.values()) {
    const status = hosts?.get(id);
    const mask = drainedMask(status);
    if (status?.isDrained === true) yield* updateFleet(people, { kind: "undrain", hosts: [id] });
    if (mask !== 0)
      yield* updateFleet(people, { kind: "undrain-gpus", gpus: [{ host: id, mask }] });
  }
}

function refusalOf(state: FleetState, order: OperatorOrder): OrderRefusal | undefined {
  switch (order.kind) {
    case "configure":
      return refuseDescription(state, order);
    case "upgrade":
      return refuseRules(state, order.rules);
    case "repair":
      return refuseRepair(state, order);
    case "hold-queue":
    case "release-queue":
      return refuseQueueOrder(state, order);
    case "drain-gpus":
    case "undrain-gpus":
      return refuseGpus(state, order) ?? refuseOutdatedGpus(state, order);
    default:
      return refuseHosts(state, order);
  }
}

/** Operators ask again until the fleet has taken the order. */
export function* updateFleet(
  { site, client, fleet }: Pick<Operators, "site" | "client" | "fleet">,
  order: OperatorOrder,
): Task<void> {
  const problemOf = (state: FleetState): string | undefined => refusalOf(state, order)?.message;
  for (;;) {
    let isAnswered = false;
    const onAnswer = (): void => {
      isAnswered = true;
    };
    const event = { kind: "order", order } as const;
    const reply = yield* site.network.call(client, () =>
      fleet()?.arrive({ kind: "update", event, problemOf, onAnswer }),
    );
    for (let waits = 0; reply.isHeard && waits < MOST_WAITS && !isAnswered; waits += 1)
      yield* sleep(site.kernel, RETRY_MS);
    if (isAnswered) return;
  }
}
