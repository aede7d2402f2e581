/** @file The routes about the fleet: who the caller is, the ledger, and an operator's orders about hosts and the queue. */

import { z } from "zod";
import { operatorRefusal } from "../access/principal.ts";
import { MOST_GPUS } from "../client/named-gpus.ts";
import { JOB_CLASSES } from "../domain/job/job.ts";
import { queueName, TENANT, type QueuePart } from "../domain/lease/queue-part.ts";
import { tenantId } from "../domain/values/ids.ts";
import { packLedger } from "../scheduling/ledger/codec.ts";
import { FORCED, insist, route, type Route } from "./route.ts";

const hosts = z
  .array(z.string().max(300))
  .min(1)
  .max(10_000)
  .meta({ description: "Hosts, as cluster/host." });

const gpus = z
  .array(
    z
      .number()
      .int()
      .min(0)
      .max(MOST_GPUS - 1),
  )
  .min(1)
  .max(MOST_GPUS)
  .meta({ description: "GPUs of each of the hosts, from 0 on." });

const queue = z
  .union([
    z.strictObject({ kind: z.literal("fleet") }),
    z.strictObject({ kind: z.literal("class"), class: z.enum(JOB_CLASSES) }),
    z.strictObject({ kind: z.literal("tenant"), tenant: z.string().regex(TENANT) }),
  ])
  .meta({ description: "All of the queue, a class's or a tenant's." });

const partOf = (named: z.infer<typeof queue>): QueuePart =>
  named.kind === "tenant" ? { ...named, tenant: tenantId(named.tenant) } : named;

export const HOST_ROUTES: readonly Route[] = [
  route({
    method: "GET",
    path: "/v1/me",
    id: "me",
    summary: "The caller's name, how it is known, and its roles.",
    answer: async ({ caller: { principal, rights }, served }) =>
      await Promise.resolve({
        name: principal.name,
        via: principal.via,
        groups: principal.groups,
        roles: rights.roles,
        grants: rights.grants,
        fleet: served.fleet,
      }),
  }),
  route({
    method: "GET",
    path: "/v1/ledger",
    id: "ledger",
    summary: "The fleet's ledger, packed: hosts, leases and the queue. The library unpacks it.",
    answer: async ({ served }) => packLedger(await served.client.fleet()),
  }),
  route({
    method: "GET",
    path: "/v1/trust",
    id: "trust",
    summary: "Whose jobs the hosts start, and in which containers, as their agents say.",
    answer: async ({ served }) => await served.client.trust(await served.client.fleet()),
  }),
  route({
    method: "POST",
    path: "/v1/hosts/drain",
    id: "drain",
    summary: "Stops new grants on hosts.",
    body: z.strictObject({ hosts, reason: z.string().max(1_000) }),
    note: ({ hosts: named, reason }) => ({ about: named.join(" "), what: reason }),
    answer: async ({ caller, served, body, accept }) => {
      insist(operatorRefusal(caller.principal, caller.rights, "drain hosts"));
      accept();
      return { hosts: await served.client.drain(body.hosts, body.reason) };
    },
  }),
  route({
    method: "POST",
    path: "/v1/hosts/drain-gpus",
    id: "drainGpus",
    summary: "Stops new grants of single GPUs of hosts.",
    body: z.strictObject({ hosts, gpus, reason: z.string().max(1_000) }),
    note: ({ hosts: named, gpus: numbers, reason }) => ({
      about: named.join(" "),
      what: `GPU ${numbers.join(", ")}: ${reason}`,
    }),
    answer: async ({ caller, served, body: { reason, ...named }, accept }) => {
      insist(operatorRefusal(caller.principal, caller.rights, "drain GPUs"));
      accept();
      await served.client.drainGpus(named, reason);
      return {};
    },
  }),
  route({
    method: "POST",
    path: "/v1/hosts/undrain-gpus",
    id: "undrainGpus",
    summary: "Ends drains of single GPUs.",
    body: z.strictObject({ hosts, gpus }),
    note: ({ hosts: named, gpus: numbers }) => ({
      about: named.join(" "),
      what: `GPU ${numbers.join(", ")}`,
    }),
    answer: async ({ caller, served, body, accept }) => {
      insist(operatorRefusal(caller.principal, caller.rights, "end drains"));
      accept();
      await served.client.undrainGpus(body);
      return {};
    },
  }),
  route({
    method: "POST",
    path: "/v1/hosts/plan-drain",
    id: "planDrain",
    summary: "Stops new grants on hosts from a time on (milliseconds since 1970).",
    body: z.strictObject({
      hosts,
      reason: z.string().max(1_000),
      atMs: z.number().int().positive(),
      by: z.string().exactOptional().meta({ description: "Left out: it is the caller." }),
    }),
    note: ({ hosts: named, reason, atMs }) => ({
      about: named.join(" "),
      what: `${new Date(atMs).toISOString()}: ${reason}`,
    }),
    answer: async ({ caller, served, body: { hosts: named, atMs, reason }, accept }) => {
      insist(operatorRefusal(caller.principal, caller.rights, "drain hosts"));
      accept();
      const by = caller.principal.name;
      return { hosts: await served.client.planDrain(named, { atMs, reason, by }) };
    },
  }),
  route({
    method: "GET",
    path: "/v1/hosts/plan-drain",
    id: "plannedDrains",
    summary: "The drains that are planned.",
    answer: async ({ served }) => ({ drains: await served.client.plannedDrains() }),
  }),
  route({
    method: "POST",
    path: "/v1/hosts/undrain",
    id: "undrain",
    summary: "Ends a drain, and calls off one that is planned.",
    body: z.strictObject({ hosts }),
    note: ({ hosts: named }) => ({ about: named.join(" ") }),
    answer: async ({ caller, served, body, accept }) => {
      insist(operatorRefusal(caller.principal, caller.rights, "end drains"));
      accept();
      return { hosts: await served.client.undrain(body.hosts) };
    },
  }),
  route({
    method: "POST",
    path: "/v1/hosts/fence",
    id: "fence",
    summary: "States that nothing runs on hosts, so that their jobs move at once.",
    body: z.strictObject({ hosts, isForced: z.boolean().exactOptional() }),
    note: ({ hosts: named, isForced }) => ({
      about: named.join(" "),
      ...(isForced === true && { what: FORCED }),
    }),
    answer: async ({ caller, served, body: { hosts: named, ...how }, accept }) => {
      insist(operatorRefusal(caller.principal, caller.rights, "fence hosts"));
      accept();
      return { hosts: await served.client.fence(named, how) };
    },
  }),
  route({
    method: "POST",
    path: "/v1/queue/hold",
    id: "holdQueue",
    summary: "Lets nothing of a part of the queue start.",
    body: z.strictObject({
      queue,
      reason: z.string().max(200).exactOptional(),
      isDraining: z.boolean().exactOptional(),
    }),
    note: ({ queue: named, reason }) => ({
      about: queueName(partOf(named)),
      ...(reason !== undefined && { what: reason }),
    }),
    answer: async ({ caller, served, body: { queue: named, ...how }, accept }) => {
      insist(operatorRefusal(caller.principal, caller.rights, "hold queues"));
      accept();
      await served.client.holdQueue(partOf(named), { ...how, by: caller.principal.name });
      return { queue: named };
    },
  }),
  route({
    method: "POST",
    path: "/v1/queue/release",
    id: "releaseQueue",
    summary: "Ends such a hold.",
    body: z.strictObject({ queue }),
    note: ({ queue: named }) => ({ about: queueName(partOf(named)) }),
    answer: async ({ caller, served, body, accept }) => {
      insist(operatorRefusal(caller.principal, caller.rights, "release queues"));
      accept();
      await served.client.releaseQueue(partOf(body.queue));
      return { queue: body.queue };
    },
  }),
];
