/** @file Runs the endpoint of `orbweaver serve replicas FILE`: reads the service's file, chooses who may ask, and asks the fleet for replicas. */

import { dirname, resolve } from "node:path";
import { randomSuffix } from "../../client/job-suffix.ts";
import { formatProblem } from "../../domain/job/job-file.ts";
import { parseServiceYaml, type ServiceFile } from "../../domain/job/service-file.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";
import { hostInUrl } from "../../lib/url-host.ts";
import type { EndpointParts } from "../../workers/replicas/service-http.ts";
import type { CommandContext } from "../command/command-context.ts";
import type { ConnectionOptionValues } from "../command/connection-options.ts";
import { refuseClearTokens, tlsOf, type TlsValues } from "../command/tls-files.ts";
import { readToken, refuseStrangers, textOf } from "../command/token-file.ts";
import { embeddedModel } from "../planning/embedded-model.ts";
import { modelFolder } from "./model-folder.ts";
import { accessGuard, bearerGuard } from "./service-guard.ts";

export interface ReplicasValues extends ConnectionOptionValues, TlsValues {
  readonly host: string;
  readonly port: number;
  readonly access?: string;
  readonly tokenFile?: string;
  readonly anyone?: boolean;
  readonly plain?: boolean;
  readonly replicaTokenFile?: string;
  readonly queue: number;
  readonly wait: number;
  readonly json?: boolean;
}

export async function serveReplicas(
  context: CommandContext,
  file: string,
  values: ReplicasValues,
): Promise<void> {
  const { io } = context;
  const service = readService(file, io.cwd);
  const { spec, rule, job } = service;
  const guard = guardOf(context, values, spec.tenant);
  const tls = tlsOf(values, io.cwd);
  // Without a guard of tokens, who asks shows none.
  if (values.anyone !== true) refuseClearTokens(values);
  const token = values.replicaTokenFile;
  const ended = new AbortController();
  const end = (): void => ended.abort();
  context.endsByItself();
  io.interrupted.addEventListener("abort", end, { once: true });
  process.once("SIGTERM", end);
  const { runEndpoint } = await import("../../workers/replicas/run-endpoint.ts");
  const { jobReplicas } = await import("../../workers/replicas/job-replicas.ts");
  await context.withFleet(values, async ({ client }) => {
    const { engine } = spec;
    await runEndpoint(
      {
        name: spec.name,
        rule,
        ...(engine !== undefined && { goal: engine }),
        jobs: jobReplicas({ client, job, spec, suffix: randomSuffix }),
        listen: { host: values.host, port: values.port, ...(tls !== undefined && { tls }) },
        guard,
        ...(token !== undefined && { replicaToken: readToken(token, io.cwd) }),
        line: { waiting: values.queue, waitMs: 1_000 * values.wait },
      },
      {
        say: context.say,
        onReady(port) {
          const scheme = tls === undefined ? "http" : "https";
          const url = `${scheme}://${hostInUrl(values.host)}:${String(port)}`;
          if (values.json === true) context.printJson({ url, service: spec.name, ...rule });
          else
            context.print(
              `${spec.name} at ${url}, ${String(rule.min)} to ${String(rule.max)} replicas`,
            );
        },
      },
      ended.signal,
    );
  });
}

function readService(name: string, cwd: string): ServiceFile {
  const path = resolve(cwd, name);
  const text = textOf(path);
  const workdir = modelFolder(text, path);
  const read = parseServiceYaml(text, {
    file: name,
    ...(workdir !== undefined && { workdir }),
    added: { ...embeddedModel({ text, file: name, folder: dirname(path) }) },
  });
  if (read.kind === "parsed") return read;
  const problems = read.problems.map(formatProblem);
  throw new OrbweaverError("BAD_INPUT", problems.join("\n"), { details: { problems } });
}

function guardOf(
  { io, say }: CommandContext,
  { host, access, tokenFile, anyone }: ReplicasValues,
  tenant: string,
): EndpointParts["guard"] {
  if (access !== undefined) {
    if (tokenFile === undefined && anyone !== true)
      return accessGuard({ file: resolve(io.cwd, access), cwd: io.cwd, tenant, say });
    throw new OrbweaverError(
      "BAD_INPUT",
      "--access says who may ask by itself. Leave --token-file and --anyone out.",
    );
  }
  const asked = {
    ...(tokenFile !== undefined && { tokenFile }),
    ...(anyone !== undefined && { anyone }),
  };
  refuseStrangers({ host, ...asked }, "ask it", "--access FILE or --token-file FILE");
  if (tokenFile !== undefined) return bearerGuard({ token: readToken(tokenFile, io.cwd) });
  return bearerGuard({ isOpen: anyone === true });
}
