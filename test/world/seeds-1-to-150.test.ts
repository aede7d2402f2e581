/** @file Worlds of the first hundred and fifty seeds break no law. */

import { playParts } from "./seeds.ts";

playParts(0, 1, 2, 3, 4);
