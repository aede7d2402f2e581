/**
 * @file Dominant resource fairness (Ghodsi and others 2011): the tenant with the smallest share of the fleet for its weight is next.
 *
 * Jobs are gangs of GPUs and take the hosts' other resources in proportion, so GPUs are every tenant's dominant resource, and the share
 * is GPUs held / weight; the fleet's total would divide all shares alike and is left out. Inside a tenant priority decides, then age. The
 * policy ignores classes, past service and latency: a tenant that holds nothing is next, whatever it received before.
 * Ties: larger weight, then the tenant's id. Cost: as tawfq.ts.
 */

import { byCodeUnit, type JobId, type TenantId } from "../../domain/values/ids.ts";
import { JOB_CLASSES } from "../../domain/job/job.ts";
import type { PendingRequest } from "../../domain/lease/plan.ts";
import { heap } from "../../lib/heap.ts";
import { tenantFlow } from "../ledger/rules/flow.ts";
import type { QueueFacts } from "../ledger/rules/service-account.ts";
import { byPriority } from "./fifo.ts";
import { kindOf as defaultKind } from "./kind.ts";
import { orderedQueue } from "./kind-queue.ts";
import type { OrderedQueue, QueueWalk } from "./ordered-queue.ts";
import type { Queue, QueuePolicy, QueueCursor } from "./queue-policy.ts";

export const drf: QueuePolicy = {
  open: ({ requests, tenants: rules, kindOf = defaultKind }): Queue => {
    const weights = new Map(rules.map(({ id, weight }) => [id, weight]));
    const tenants = new Map<TenantId, Tenant>();
    const waiting = new Map<JobId, PendingRequest>();
    for (const request of requests) add(request);
    return {
      size: () => waiting.size,
      add,
      remove,
      order: (_nowMs, facts) => cursorFor(tenants.values(), facts),
    };

    function add(request: PendingRequest): void {
      remove(request.jobId);
      waiting.set(request.jobId, request);
      const { tenant: id } = request;
      const tenant = tenants.get(id) ?? {
        id,
        weight: weights.get(id) ?? 1,
        queue: orderedQueue((a, b) => byPriority(a, b) < 0, kindOf),
      };
      tenants.set(id, tenant);
      tenant.queue.add(request);
    }

    function remove(job: JobId): void {
      const request = waiting.get(job);
      if (request === undefined) return;
      waiting.delete(job);
      const tenant = tenants.get(request.tenant);
      tenant?.queue.remove(request);
      if (tenant?.queue.isEmpty() === true) tenants.delete(tenant.id);
    }
  },
};

interface Tenant {
  readonly id: TenantId;
  readonly weight: number;
  readonly queue: OrderedQueue;
}

interface Runner {
  readonly tenant: Tenant;
  /** Through its queue; opened when the tenant is first next. */
  walk?: QueueWalk;
  /** GPUs held for each unit of weight. */
  share: number;
}

function cursorFor(tenants: Iterable<Tenant>, { runningGpus }: QueueFacts): QueueCursor {
  const runners = new Map<TenantId, Runner>();
  for (const tenant of tenants) {
    const held = JOB_CLASSES.map((jobClass) => tenantFlow({ class: jobClass, tenant: tenant.id }));
    const gpuCount = held.reduce((sum, flow) => sum + (runningGpus.get(flow) ?? 0), 0);
    runners.set(tenant.id, { tenant, share: gpuCount / tenant.weight });
  }
  const race = heap<Runner>(isAhead, runners.values());
  return {
    next: () => {
      for (let first = race.peek(); first !== undefined; first = race.peek()) {
        const walk = (first.walk ??= first.tenant.queue.walk());
        const request = walk.next();
        if (request !== undefined) return request;
        race.pop();
      }
      return undefined;
    },
    noteGrant: ({ tenant }, gpuCount) => {
      const runner = runners.get(tenant);
      if (runner === undefined) return;
      runner.share += gpuCount / runner.tenant.weight;
      race.moved(runner);
    },
    dismiss: (request, stays) => runners.get(request.tenant)?.walk?.dismiss(request, stays),
    recall: () => {
      for (const { walk } of runners.values()) walk?.recall();
    },
  };
}

const isAhead = (a: Runner, b: Runner): boolean =>
  (a.share - b.share || b.tenant.weight - a.tenant.weight || byCodeUnit(a.tenant.id, b.tenant.id)) <
  0;
