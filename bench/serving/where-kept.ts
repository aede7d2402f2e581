/**
 * @file Whether a service without a replica comes up where a host keeps its weights: of two hosts alike, the one that placement would take last.
 *
 * The service serves once on that host, because its file says so; then an endpoint whose file leaves both open is asked from cold.
 */

import { weightsKeepers } from "../../client/gpu-use.ts";
import { serviceMark } from "../../domain/lease/kept-weights.ts";
import { clusterId, parseHostId } from "../../domain/values/ids.ts";
import { exactly, barOf, type Bar } from "../bar.ts";
import { openJobs, type ServiceSite } from "./service-site.ts";

export const PAIR = "pair";
/** Of two hosts alike, the second one in the order of the fleet file. */
const KEEPER = parseHostId(`${PAIR}/c4`);
export const PAIR_HOSTS: readonly string[] = ["c3", "c4"];

const serviceYaml = (constraints: string, idle: string): string => `
name: cold-${PAIR}
class: inference
gang: 1
model: model.onnx
serve: { scaleToZero: ${idle} }
constraints: ${constraints}
run: { grace: 5s }
`;

export async function whereKept(site: ServiceSite, body: string): Promise<Bar> {
  const { temporal, fleet, orbweaver } = site.world;
  const name = `cold-${PAIR}`;
  const isIdle = async (): Promise<true | undefined> =>
    openJobs(await orbweaver.fleet()).length === 0 ? true : undefined;
  await site.until("no service has a replica", isIdle);
  const pinned = await site.openEndpoint(serviceYaml(`{ hosts: ["${KEEPER}"] }`, "1s"));
  await pinned.ask(body);
  const mark = serviceMark({ tenant: "default", name });
  await site.until("the host says that it keeps the weights", async () => {
    const kept = await weightsKeepers(temporal, { fleet, cluster: clusterId(PAIR) });
    return kept.some(({ host, services }) => host === KEEPER && services.includes(mark))
      ? true
      : undefined;
  });
  await site.until("the service has no replica", isIdle);
  // Long enough to look at its lease.
  const open = await site.openEndpoint(serviceYaml(`{ clusters: [${PAIR}] }`, "600s"));
  const { status } = await open.ask(body);
  const leases = [...(await orbweaver.fleet()).leases.values()];
  const isThere = leases.some(({ gpus }) => gpus.some(({ host }) => host === KEEPER));
  return barOf({
    id: "cold-where-kept",
    unit: "replicas",
    target: exactly(1),
    got: status === 200 && isThere ? 1 : 0,
    note: "a service without a replica comes up on the host that keeps its weights, of two alike the one that placement would take last",
  });
}
