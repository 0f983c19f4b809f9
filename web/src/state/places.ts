/** The four places, in the order of the navigation. */
export const PLACES = [
  { name: "play", title: "Play" },
  { name: "train", title: "Train" },
  { name: "inside", title: "Look inside" },
  { name: "models", title: "My models" },
] as const;
