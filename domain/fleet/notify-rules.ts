/** @file The rules between the keys of an entry of `notify:` in a fleet file. */

import { pathText, shown, type ValuePath } from "../values/file-problem.ts";
import { waitProblems } from "../job/job-notice.ts";
import type { RuleProblem } from "./fleet-names.ts";
import type { NoticeTarget } from "./notify-schema.ts";

const WAYS = ["webhook", "slackFile", "command"] as const;
const OF_HOSTS: readonly string[] = ["host-drained", "host-silent", "host-back"];

export function notifyProblems(targets: readonly NoticeTarget[] | undefined): RuleProblem[] {
  const firstPaths = new Map<string, ValuePath>();
  return (targets ?? []).flatMap((target, at): RuleProblem[] => {
    const path: ValuePath = ["notify", at];
    const first = firstPaths.get(target.name);
    firstPaths.set(target.name, first ?? path);
    return [
      ...(first === undefined
        ? []
        : [
            {
              path: [...path, "name"],
              value: target.name,
              message: `${shown(target.name)} is there twice, first at ${pathText(first)}`,
              remedy: "rename one",
            },
          ]),
      ...wayProblems(target, path),
      ...waitProblems(target.on.includes("waiting"), target.waiting).map((problem) => ({
        path,
        value: { on: target.on, waiting: target.waiting },
        ...problem,
      })),
      ...scopeProblems(target, path),
    ];
  });
}

function wayProblems(target: NoticeTarget, path: ValuePath): RuleProblem[] {
  const ways = WAYS.filter((way) => target[way] !== undefined);
  if (ways.length !== 1) {
    const message =
      ways.length === 0 ? "nothing says how it is told" : `it is told by ${ways.join(" and ")}`;
    return [{ path, value: target, message, remedy: `write one of ${WAYS.join(", ")}` }];
  }
  const { webhook, secretFile } = target;
  if (webhook === undefined && secretFile !== undefined) {
    const message = "only a webhook's notices are signed";
    return [{ path: [...path, "secretFile"], value: secretFile, message, remedy: "leave it out" }];
  }
  if (webhook === undefined || isHttp(webhook)) return [];
  const message = `${shown(webhook)} is no address of a web server`;
  const remedy = "write one that begins with https:// or http://, without a user or password";
  return [{ path: [...path, "webhook"], value: webhook, message, remedy }];
}

function isHttp(address: string): boolean {
  const found = /^https?:\/\/(?<host>[^/?#\s]+)[^\s]*$/.exec(address);
  return found !== null && !(found.groups?.["host"] ?? "").includes("@");
}

/** A host has neither tenant nor class: of a filter nobody could tell what it means. */
function scopeProblems({ on, tenants, classes }: NoticeTarget, path: ValuePath): RuleProblem[] {
  if (tenants === undefined && classes === undefined) return [];
  const ofHost = on.find((event) => OF_HOSTS.includes(event));
  if (ofHost === undefined) return [];
  const message = `${ofHost} is of a host, which has neither tenant nor class`;
  return [{ path, value: on, message, remedy: "make an entry of its own for hosts" }];
}
