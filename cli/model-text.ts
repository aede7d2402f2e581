/** @file Figures of bandwidth models as people read them. */

export const percentText = (share: number): string =>
  Number.isFinite(share) ? `${(100 * share).toFixed(1)} %` : "–";
