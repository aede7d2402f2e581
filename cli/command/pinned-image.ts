/**
 * @file Pins a job's image to the bytes that its tag names on this machine, so that all hosts of a gang, and every later run, start the same ones.
 *
 * podman and docker know the digest of what they have fetched. No registry is asked: an image that this machine does not have stays as it is written, as do
 * one with a digest, a path of the hosts, and `localhost/…`, which each machine makes itself.
 */

import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { readJob, type JobFile } from "../../client/index.ts";
import { imageForm } from "../../domain/job/job-image.ts";
import type { CommandContext } from "./command-context.ts";

const run = promisify(execFile);
const TOOLS = ["podman", "docker"];
/** A daemon that hangs holds no submission up for longer. */
const PATIENCE_MS = 5_000;
const DIGEST = /^sha256:[0-9a-f]{64}$/;

export interface PinSource {
  readonly job: JobFile | string;
  /** For messages. */
  readonly file?: string | undefined;
}

/** The same job where nothing is pinned. Says what is. */
export async function withPinnedImage(
  { io, say }: Pick<CommandContext, "io" | "say">,
  { job, file }: PinSource,
): Promise<JobFile | string> {
  const { file: fields, spec } = readJob(job, file);
  const { container } = fields.run ?? {};
  const name = spec.run?.container?.image;
  if (container === undefined || name === undefined || !isPinnable(name)) return job;
  for (const tool of TOOLS) {
    const pinned = pinnedBy(name, await digestsKnownTo(tool, { name, env: io.env }));
    if (pinned === undefined) continue;
    say(`${name} is pinned to ${pinned}, as ${tool} has it here; --no-pin leaves it as written`);
    return { ...fields, run: { ...fields.run, container: { ...container, image: pinned } } };
  }
  return job;
}

const isPinnable = (name: string): boolean =>
  imageForm(name) === "reference" && !name.includes("@") && !name.startsWith("localhost/");

/** The image by its digest, if one of these is of its repository: `docker.io/library/debian` is that of `debian`. */
export function pinnedBy(name: string, digests: readonly string[]): string | undefined {
  const repository = name.replace(/:[^:/]*$/, "");
  for (const each of digests) {
    const [of = "", digest = ""] = each.split("@");
    const isSame = of === repository || of.endsWith(`/${repository}`);
    if (isSame && DIGEST.test(digest)) return `${repository}@${digest}`;
  }
  return undefined;
}

/** None where the tool is not there, or does not have the image. */
async function digestsKnownTo(
  tool: string,
  { name, env }: { readonly name: string; readonly env: CommandContext["io"]["env"] },
): Promise<readonly string[]> {
  try {
    const words = ["image", "inspect", "--format", "{{json .RepoDigests}}", name];
    const { stdout } = await run(tool, words, { timeout: PATIENCE_MS, env: { ...env } });
    const digests: unknown = JSON.parse(stdout);
    return Array.isArray(digests) ? digests.filter((each) => typeof each === "string") : [];
  } catch {
    return [];
  }
}
