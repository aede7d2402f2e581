/** @file Imports for bundles, because code that was compiled at an earlier time cannot: names are relative to this folder, or whole. */

exports.load = (name: string): Promise<unknown> => import(name);
