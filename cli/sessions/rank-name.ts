/** @file `JOB` or `JOB:RANK`, as verbs of sessions take it. */

import { OrbweaverError } from "../../domain/values/failure.ts";

/** Rank 0 where none is named. Throws BAD_INPUT. */
export function rankNamed(name: string): { readonly job: string; readonly rank: number } {
  const { job = "", rank } = /^(?<job>[^:]+)(?::(?<rank>\d{1,5}))?$/.exec(name)?.groups ?? {};
  if (job === "")
    throw new OrbweaverError(
      "BAD_INPUT",
      `${JSON.stringify(name)} names no rank of a job. Write JOB or JOB:RANK, as in train-7:3.`,
    );
  return { job, rank: Number(rank ?? 0) };
}
