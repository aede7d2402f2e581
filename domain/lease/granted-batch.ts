/**
 * @file The global batch size of a gang that was granted fewer GPUs than it asked for.
 *
 * The batch shrinks as the gang does, so each GPU's part, and with it memory and learning rate by GPU, stay the same:
 * batch × granted ÷ requested, to the nearest multiple of the granted GPUs, at least one sample for each. Where the requested
 * batch has less than one sample a GPU (the model itself is split over GPUs) there is no such multiple; then the nearest whole number,
 * at least 1, is taken. A gang of the full size gets its batch unchanged.
 */

export interface GrantedGang {
  /** The requested batch of the full gang. */
  readonly batch: number;
  readonly requested: number;
  readonly granted: number;
}

export function grantedBatch({ batch, requested, granted }: GrantedGang): number {
  if (granted >= requested) return batch;
  const share = (batch * granted) / requested;
  if (batch < requested) return Math.max(1, Math.round(share));
  return Math.max(1, Math.round(share / granted)) * granted;
}
