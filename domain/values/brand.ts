/** @file One mechanism for branded primitives: an id or a unit that cannot be mistaken for another. */

declare const brand: unique symbol;

/** `Base` at run time, a distinct type at compile time. Only the constructors beside each brand may cast. */
export type Brand<Base, Name extends string> = Base & { readonly [brand]: Name };
