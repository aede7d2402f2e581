/** @file Every bench that `orbweaver bench` knows: one line for each. */

import type { Bench } from "./bench.ts";
import { liveBench } from "./live.ts";

export const BENCHES: readonly Bench[] = [liveBench];
