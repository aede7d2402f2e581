/** @file What the search sees of bandwidth: the types of domain/bandwidth-port.ts under the roof of those who pick. */

export type {
  Appraised,
  BandwidthDomain,
  BandwidthHost,
  BandwidthPredictor,
  BandwidthSample,
  Candidate,
  PickShare,
} from "../../domain/bandwidth-port.ts";
