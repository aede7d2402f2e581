/** @file Worlds of the second hundred and fifty seeds break no law. */

import { playParts } from "./seeds.ts";

playParts(5, 6, 7, 8, 9);
