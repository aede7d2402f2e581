/** @file Every bench that `orbweaver bench` knows: one line for each. */

import type { Bench } from "./bench.ts";
import { collectivesBench } from "./collectives.ts";
import { consoleBench } from "./console.ts";
import { crowdBench } from "./crowd.ts";
import { floodsBench } from "./floods.ts";
import { handlersBench } from "./handlers.ts";
import { inferenceBench } from "./inference.ts";
import { interactiveBench } from "./interactive.ts";
import { launchBench } from "./launch.ts";
import { liveBench } from "./live.ts";
import { liveCycleBench } from "./live-cycle.ts";
import { pickBench } from "./pick.ts";
import { placementBench } from "./placement.ts";
import { planBench } from "./plan.ts";
import { queueBench } from "./queue.ts";
import { raceBench } from "./race.ts";
import { replicasBench } from "./replicas.ts";
import { servingBench } from "./serving.ts";
import { spiderflowBench } from "./spiderflow.ts";
import { stormBench } from "./storm.ts";
import { swapBench } from "./swap.ts";
import { tracesBench } from "./traces.ts";
import { worldBench } from "./world.ts";

export const BENCHES: readonly Bench[] = [
  collectivesBench,
  consoleBench,
  crowdBench,
  floodsBench,
  handlersBench,
  inferenceBench,
  interactiveBench,
  launchBench,
  liveBench,
  liveCycleBench,
  pickBench,
  placementBench,
  planBench,
  queueBench,
  raceBench,
  replicasBench,
  servingBench,
  spiderflowBench,
  stormBench,
  swapBench,
  tracesBench,
  worldBench,
];
