/**
 * @file `jobNotices:` of a fleet file: under which addresses `notify:` of job files may name some. None unless listed, because the console's host would
 * send requests wherever a submitter likes.
 */

import { z } from "zod";
import { flag, text } from "../file/schema-leaf.ts";
import { addressProblem, type JobNotice } from "../job/job-notice.ts";
import type { ValuePath } from "../values/file-problem.ts";
import { liesUnder, MAX_ADDRESS_CHARS, readWebAddress } from "../values/web-address.ts";
import type { RuleProblem } from "./fleet-names.ts";

const MOST_RULES = 50;
const MAX_PATH_CHARS = 4_096;

const rule = z
  .strictObject({
    address: text({
      description: "Job files may name this address and those below it.",
      maxLength: MAX_ADDRESS_CHARS,
      examples: ["https://hooks.example.org/research/"],
    }),
    secretFile: text({
      description:
        "The secret by which webhooks' notices are signed (HMAC-SHA256), in a file beside this one. Default: they are not signed.",
      maxLength: MAX_PATH_CHARS,
      examples: ["hook.secret"],
    }).optional(),
    private: flag(
      "Whether its host's name may stand for an address of this machine or of a private network. Default: false.",
    ).optional(),
  })
  .meta({ description: "An address under which job files may name addresses." });

export const jobNoticesSchema = z.array(rule).max(MOST_RULES).meta({
  description:
    "Which addresses `notify:` of job files may name. Default: none. The console tells it; only the file on its machine counts there.",
});

export type JobNoticeRule = z.output<typeof rule>;

export const jobNoticeProblems = (
  rules: readonly JobNoticeRule[] | undefined,
): readonly RuleProblem[] =>
  (rules ?? []).flatMap(({ address }, at): readonly RuleProblem[] => {
    const read = readWebAddress(address);
    if (read !== undefined && !read.hasQuery) return [];
    const path: ValuePath = ["jobNotices", at, "address"];
    const problem =
      read === undefined
        ? addressProblem(address)
        : { message: "an address with a query", remedy: "leave the query out" };
    return [{ path, value: address, ...problem }];
  });

/** The first rule under which the address lies; undefined where job files may not name it. */
export function ruleOf<Rule extends Pick<JobNoticeRule, "address">>(
  address: string,
  rules: readonly Rule[],
): Rule | undefined {
  const read = readWebAddress(address);
  if (read === undefined) return undefined;
  return rules.find((each) => {
    const under = readWebAddress(each.address);
    return under !== undefined && liesUnder(read, under);
  });
}

/** Why a fleet that lists these addresses refuses a job's notices; undefined where it does not. `listed`: undefined where it lists none. */
export function noticeRefusal(
  notices: readonly Pick<JobNotice, "address">[],
  listed: readonly string[] = [],
): string | undefined {
  const rules = listed.map((address) => ({ address }));
  const refused = notices.filter(({ address }) => ruleOf(address, rules) === undefined);
  if (refused.length === 0) return undefined;
  const hosts = [...new Set(refused.map(({ address }) => shownHost(address)))].join(", ");
  const known =
    listed.length === 0 ? "lets job files name none" : `lets job files name ${listed.join(", ")}`;
  return `notify: the job names addresses at ${hosts}, and the fleet ${known}. Name another one, leave notify out, or ask the fleet's operator to list it under jobNotices in the fleet file and to run \`orbweaver fleet apply\`.`;
}

/** The rest of an address may be a secret. */
export function shownHost(address: string): string {
  const { scheme, host } = readWebAddress(address) ?? {};
  return host === undefined ? "an unreadable place" : `${scheme ?? ""}://${host}`;
}
