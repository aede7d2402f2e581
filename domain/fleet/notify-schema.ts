/** @file The schema of `notify:` in a fleet file: who is told what of the fleet and its jobs. Rules between the keys of an entry are in `notify-rules.ts`. */

import { z } from "zod";
import { plainName } from "../file/file-words.ts";
import { choice, duration, text } from "../file/schema-leaf.ts";
import { JOB_CLASSES } from "../job/job.ts";
import { JOB_NOTICE_EVENTS } from "../job/job-notice.ts";

export const NOTICE_EVENTS = [
  ...JOB_NOTICE_EVENTS,
  "host-drained",
  "host-silent",
  "host-back",
] as const;
export type NoticeEvent = (typeof NOTICE_EVENTS)[number];

const MOST_TARGETS = 50;
const MAX_PATH_CHARS = 4_096;

export const targetSchema = z
  .strictObject({
    name: plainName("a target", {
      description: "Its name in notices and messages.",
      examples: ["oncall"],
    }),
    webhook: text({
      description: "Gets a POST with a JSON document for each notice.",
      maxLength: 2_000,
      examples: ["https://hooks.example.org/orbweaver"],
    }).optional(),
    secretFile: text({
      description:
        "The secret by which a webhook's notices are signed (HMAC-SHA256), in a file beside this one. Default: they are not signed.",
      maxLength: MAX_PATH_CHARS,
      examples: ["hook.secret"],
    }).optional(),
    slackFile: text({
      description:
        "A file with the address of an incoming webhook of Slack, or of a service that reads the same messages.",
      maxLength: MAX_PATH_CHARS,
      examples: ["slack.url"],
    }).optional(),
    command: z
      .array(text({ description: "A word of the command.", maxLength: MAX_PATH_CHARS }))
      .min(1)
      .max(100)
      .meta({
        description:
          "A command on the console's machine, run by the console's user; it reads the JSON document of a notice.",
        examples: [["/usr/local/bin/page", "--team", "research"]],
      })
      .optional(),
    on: z
      .array(choice(NOTICE_EVENTS, { description: "An event." }))
      .min(1)
      .meta({
        description: "What it is told.",
        examples: [["failed", "waiting", "host-silent"]],
      }),
    waiting: duration({
      description: "How long a job waits before `waiting` is told, once.",
      examples: ["2h"],
    }).optional(),
    tenants: z
      .array(plainName("a tenant", { description: "A tenant." }))
      .min(1)
      .meta({
        description: "Only of jobs of these tenants. Default: of all.",
        examples: [["research"]],
      })
      .optional(),
    classes: z
      .array(choice(JOB_CLASSES, { description: "A class." }))
      .min(1)
      .meta({ description: "Only of jobs of these classes. Default: of all." })
      .optional(),
  })
  .meta({ description: "Who is told, and of what." });

export const notifySchema = z.array(targetSchema).max(MOST_TARGETS).meta({
  description:
    "Who is told of jobs and hosts, by a webhook, Slack or a command. The console tells it; only the file on its machine counts.",
});

export type NoticeTarget = z.output<typeof targetSchema>;
