/**
 * @file Whether a service without a replica comes up where a host keeps its weights: of two hosts alike, the one that placement would take last.
 *
 * The service serves once on that host, because its file says so; then an endpoint whose file leaves both open is asked from cold.
 */

import { setTimeout as sleep } from "node:timers/promises";
import { weightsKeepers } from "../../client/gpu-use.ts";
import { serviceMark } from "../../domain/lease/kept-weights.ts";
import { clusterId, parseHostId } from "../../domain/values/ids.ts";
import { exactly, barOf, type Bar } from "../bar.ts";
import { openJobs, type ServiceSite } from "./service-site.ts";

export const PAIR = "pair";
/** Of two hosts alike, the second one in the order of the fleet file. */
const KEEPER = parseHostId(`${PAIR}/c4`);
export const PAIR_HOSTS: readonly string[] = ["c3", "c4"];

const serviceYaml = (name: string, constraints: string, idle: string): string => `
name: ${name}
class: inference
gang: 1
model: model.onnx
serve: { scaleToZero: ${idle} }
constraints: ${constraints}
run: { grace: 5s }
`;

const TRIES = 5;
/** Placement asks hosts what they keep once in five seconds, and hears what they say within three. */
const AGAIN_MS = 6_000;

/**
 * Tried again with a name that no host knows: placement waits a quarter of a second for what hosts keep, which a busy machine may take longer to tell. What they
 * tell later it knows for the next request, so in later tries another job is placed there before the service.
 */
export async function whereKept(site: ServiceSite, body: string): Promise<Bar> {
  let [tries, isThere] = [0, false];
  while (!isThere && tries < TRIES) {
    if (tries > 0) await sleep(AGAIN_MS);
    tries += 1;
    const name = `cold-${PAIR}-${String(tries)}`;
    isThere = await comesUpWhereKept(site, { body, name, isAskedBefore: tries > 1 });
  }
  return barOf({
    id: "cold-where-kept",
    unit: "replicas",
    target: exactly(1),
    got: isThere ? 1 : 0,
    note: `a service without a replica comes up on the host that keeps its weights, of two alike the one that placement would take last; try ${String(tries)} of at most ${String(TRIES)}`,
  });
}

interface Attempt {
  readonly body: string;
  readonly name: string;
  /** Placement has had the hosts asked when the service is to come up. */
  readonly isAskedBefore: boolean;
}

async function comesUpWhereKept(
  site: ServiceSite,
  { body, name, isAskedBefore }: Attempt,
): Promise<boolean> {
  const { temporal, fleet, orbweaver } = site.world;
  const isIdle = async (): Promise<true | undefined> =>
    openJobs(await orbweaver.fleet()).length === 0 ? true : undefined;
  await site.until("no service has a replica", isIdle);
  const pinned = await site.openEndpoint(serviceYaml(name, `{ hosts: ["${KEEPER}"] }`, "1s"));
  await pinned.ask(body);
  const mark = serviceMark({ tenant: "default", name });
  await site.until("the host says that it keeps the weights", async () => {
    const kept = await weightsKeepers(temporal, { fleet, cluster: clusterId(PAIR) });
    return kept.some(({ host, services }) => host === KEEPER && services.includes(mark))
      ? true
      : undefined;
  });
  await site.until("the service has no replica", isIdle);
  if (isAskedBefore) {
    const other = { name: "other", class: "inference", gang: 1 } as const;
    const place = { constraints: { clusters: [PAIR], sameHost: true }, run: { command: ["true"] } };
    const { jobId } = await orbweaver.submit({ ...other, ...place });
    await orbweaver.job(jobId).result();
    await sleep(AGAIN_MS);
  }
  // Long enough to look at its lease.
  const open = await site.openEndpoint(serviceYaml(name, `{ clusters: [${PAIR}] }`, "20s"));
  const { status } = await open.ask(body);
  const leases = [...(await orbweaver.fleet()).leases.values()];
  return status === 200 && leases.some(({ gpus }) => gpus.some(({ host }) => host === KEEPER));
}
