/**
 * @file Next is who wants the largest gang: the order of bin-packing.
 *
 * First-fit-decreasing, the reading under which packing does best: large gangs find room while there is some, small ones fill what is
 * left of the hosts. Together with a placement that chooses the tightest fit, and with nobody held back for those who do not fit.
 * It knows neither tenants nor classes, and a stream of large gangs starves small ones. Among equals priority, then age.
 * Cost: O(log n) a request.
 */

import { byPriority } from "./fifo.ts";
import { oneLine } from "./one-line.ts";

export const largestFirst = oneLine((a, b) => b.gang.gpus - a.gang.gpus || byPriority(a, b));
