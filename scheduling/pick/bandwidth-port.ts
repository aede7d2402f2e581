/** @file Passes on the types of domain/bandwidth/bandwidth-port.ts that searches use. */

export type {
  Appraised,
  BandwidthDomain,
  BandwidthHost,
  BandwidthPredictor,
  BandwidthSample,
  Candidate,
  PickShare,
} from "../../domain/bandwidth/bandwidth-port.ts";
