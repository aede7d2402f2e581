/** @file `orbweaver serve replicas FILE`: one endpoint in front of replicas, each a job, as many as the requests need. */

import type { Command } from "commander";
import { randomSuffix } from "../../../client/job-suffix.ts";
import { dirname, resolve } from "node:path";
import { formatProblem } from "../../../domain/job/job-file.ts";
import { parseServiceYaml, type ServiceFile } from "../../../domain/job/service-file.ts";
import { OrbweaverError } from "../../../domain/values/failure.ts";
import type { EndpointParts } from "../../../workers/replicas/service-http.ts";
import { hostInUrl } from "../../../lib/url-host.ts";
import { helpEnd, type CommandContext } from "../../command/command-context.ts";
import {
  addServiceOptions,
  type ConnectionOptionValues,
} from "../../command/connection-options.ts";
import { wholeNumber } from "../../command/option-values.ts";
import {
  addTlsOptions,
  refuseClearTokens,
  tlsOf,
  type TlsValues,
} from "../../command/tls-files.ts";
import { readToken, refuseStrangers, textOf } from "../../command/token-file.ts";
import { embeddedModel } from "../../planning/embedded-model.ts";
import { modelFolder } from "../../serving/model-folder.ts";
import { accessGuard, bearerGuard } from "../../serving/service-guard.ts";

interface ReplicasValues extends ConnectionOptionValues, TlsValues {
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

export function replicasVerb(context: CommandContext): Command {
  const verb = context
    .verb("replicas")
    .summary("serve a model by as many jobs as its requests need")
    .description(
      "Reads the job file of one replica, an .onnx model or an engine for language models, with `min`, `max` and `scaleToZero` under `serve`. Listens for requests, submits a job for each replica that they need, sends each request to a replica by load and by the beginning of its prompt, and cancels replicas that are not needed, once they have answered. Requests wait while a replica starts, is preempted or moves. With `scaleToZero` an idle service has no replica, and the next request brings one up. On Ctrl-C or TERM it answers the requests in service and ends; its replicas stay for the next endpoint (`orbweaver cancel --label orbweaver/service=NAME` ends them). Run one endpoint a service.",
    )
    .argument("<file>", "job file of one replica, with min, max and scaleToZero under serve")
    .option("--host <address>", "address to listen on", "127.0.0.1")
    .option("--port <n>", "port to listen on, 0 for any", wholeNumber("--port", 0), 8080)
    .option(
      "--access <fleet.yaml>",
      "who may ask, by `access:` of this file: users of the service's tenant, viewers for counts, operators",
    )
    .option("--token-file <file>", "require the token in this file (Authorization: Bearer)")
    .option("--anyone", "answer everybody without a token, because a proxy in front decides")
    .option("--plain", "HTTP beyond this machine, because a proxy in front encrypts")
    .option("--replica-token-file <file>", "token that replicas ask for")
    .option(
      "--queue <n>",
      "most requests that wait; further ones get status 429",
      wholeNumber("--queue", 1),
      1_000,
    )
    .option(
      "--wait <seconds>",
      "longest time that a request waits for a replica",
      wholeNumber("--wait", 1),
      600,
    )
    .option("--json", "answer with one JSON document when it listens")
    .addHelpText(
      "after",
      helpEnd([
        ["orbweaver serve replicas chat.yaml", "on 127.0.0.1:8080, for yourself"],
        [
          "orbweaver serve replicas chat.yaml --host 0.0.0.0 --access fleet.yaml --cert c.pem --key k.pem",
          "for users whom the fleet file admits",
        ],
        ["curl -s localhost:8080/metrics", "requests, replicas and times"],
        ["orbweaver cancel --label orbweaver/service=chat", "end all replicas"],
      ]),
    )
    .action(async (file: string, values: ReplicasValues) => {
      await serveReplicas(context, file, values);
    });
  return addServiceOptions(addTlsOptions(verb));
}

async function serveReplicas(
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
  const { runEndpoint } = await import("../../../workers/replicas/run-endpoint.ts");
  const { jobReplicas } = await import("../../../workers/replicas/job-replicas.ts");
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
