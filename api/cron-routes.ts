/** @file The routes about schedules. */

import { z } from "zod";
import type { JobFile } from "../domain/job/job-file.ts";
import { OVERLAPS } from "../protocol/cron.ts";
import { deleteCron, listCrons, makeCron, orderCron } from "./crons.ts";
import { route, type Route } from "./route.ts";

const MOST_WORDS = 500;
const nothing = z.strictObject({});

export const CRON_ROUTES: readonly Route[] = [
  route({
    method: "POST",
    path: "/v1/crons",
    id: "cron-submit",
    summary:
      "Submits a job again and again by a schedule, in the caller's name, under a standing signature of the service.",
    body: z.strictObject({
      job: z
        .union([z.string(), z.looseObject({})])
        .meta({ description: "The job file: as YAML text, or as an object." }),
      key: z.string().exactOptional().meta({ description: "The id of the schedule." }),
      expression: z
        .string()
        .max(MOST_WORDS)
        .meta({ description: "Five fields, as in 0 3 * * *, or @hourly to @yearly." }),
      timeZone: z.string().max(MOST_WORDS).meta({ description: "As in Europe/Berlin." }),
      isQueuedAnyway: z.boolean().exactOptional().meta({
        description: "Also where the fleet would never start its jobs as it is.",
      }),
      overlap: z.enum(OVERLAPS).meta({
        description: "What happens while a job of before waits or runs.",
      }),
    }),
    note: ({ key: about, expression: what }) => ({ what, ...(about !== undefined && { about }) }),
    // The library reads the job as a job file, and refuses what is none.
    answer: (call) => makeCron(call, { ...call.body, job: call.body.job as JobFile | string }),
  }),
  route({
    method: "GET",
    path: "/v1/crons",
    id: "cron-list",
    summary: "The schedules that the caller may see, with what their last times became.",
    answer: ({ served, caller }) => listCrons(served, caller),
  }),
  route({
    method: "POST",
    path: "/v1/crons/{cron}/pause",
    id: "cron-pause",
    summary: "Lets a schedule start nothing until it is resumed.",
    body: z.strictObject({ reason: z.string().max(MOST_WORDS).exactOptional() }),
    note: ({ reason: what }) => (what === undefined ? {} : { what }),
    answer: (call) =>
      orderCron(call, (schedule) =>
        schedule.pause(`${call.caller.principal.name}: ${call.body.reason ?? "by hand"}`),
      ),
  }),
  route({
    method: "POST",
    path: "/v1/crons/{cron}/resume",
    id: "cron-resume",
    summary: "Ends a pause; times that passed meanwhile are left out.",
    body: nothing,
    answer: (call) => orderCron(call, (schedule) => schedule.unpause()),
  }),
  route({
    method: "POST",
    path: "/v1/crons/{cron}/run",
    id: "cron-run",
    summary: "Submits a job of the schedule now, too.",
    body: nothing,
    answer: (call) => orderCron(call, (schedule) => schedule.trigger("ALLOW_ALL")),
  }),
  route({
    method: "POST",
    path: "/v1/crons/{cron}/delete",
    id: "cron-delete",
    summary: "Revokes the standing signature and deletes the schedule; its jobs go on.",
    body: nothing,
    answer: deleteCron,
  }),
];
