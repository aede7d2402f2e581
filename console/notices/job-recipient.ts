/**
 * @file Those whom job files name, as the history database has them: way and address in one name, so that a console that starts again knows all that it needs.
 * The names of the fleet file's targets have no spaces.
 */

import { ruleOf, shownHost, type JobNoticeRule } from "../../domain/fleet/job-notices.ts";
import type { JobNotice } from "../../domain/job/job-notice.ts";
import type { NoticeRow } from "../history/database.ts";
import { post, type LookUp } from "./post.ts";
import { noticeHeaders, signed, slackBody, wordIn } from "./send.ts";

export interface JobRecipient {
  readonly name: string;
  /** What may be said of it: the rest of its address may be a secret. */
  readonly shownAs: string;
}

export const nameOf = ({ way, address }: Pick<JobNotice, "way" | "address">): string =>
  `${way} ${address}`;

const addressIn = (name: string): string => name.slice(name.indexOf(" ") + 1);

export const recipientNamed = (name: string): JobRecipient => ({
  name,
  shownAs: `an address of jobs at ${shownHost(addressIn(name))}`,
});

export interface JobSenderOptions {
  /** Files are named relative to it. */
  readonly folder: string;
  /** As the fleet file stands now. */
  readonly rules: () => readonly JobNoticeRule[];
  /** Ends what is on its way. */
  readonly signal: AbortSignal;
  readonly lookUp?: LookUp;
}

/** Judges the address once more: the fleet file may list it no longer, and a history may hold what no client has checked. */
export const createJobSender =
  ({ folder, rules, signal, lookUp }: JobSenderOptions) =>
  async ({ name }: JobRecipient, row: NoticeRow, nowMs: number): Promise<void> => {
    const { body } = row;
    const address = addressIn(name);
    const rule = ruleOf(address, rules());
    if (rule === undefined) throw new Error("the fleet file lets jobs name it no longer");
    const options = {
      signal,
      isPublic: rule.private !== true,
      ...(lookUp !== undefined && { lookUp }),
    };
    if (name.startsWith("slack ")) return await post(address, slackBody(body), options);
    const { secretFile } = rule;
    const secret = secretFile === undefined ? undefined : await wordIn(folder, secretFile);
    const signature = secret === undefined ? {} : signed(secret, body, nowMs);
    await post(address, body, { ...options, headers: { ...noticeHeaders(row), ...signature } });
  };
