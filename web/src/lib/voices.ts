// How the bundled models introduce themselves: a prompt, a seed, and what this model writes from them. Chosen by hand.

export interface Voice {
  model: string;
  name: string;
  prompt: string;
  seed: number;
  code?: boolean; // its lines are indented
  greedy?: boolean; // it answers, always the most likely letter
  quote: string;
  prompts: string[]; // to try
}

export const VOICES: Voice[] = [
  {
    model: "shakespeare-small",
    name: "Shakespeare",
    prompt: "HAMLET.\n",
    seed: 5,
    quote: "Come, good my mind; deny it is form'd.-- But there is he! enough I have rain'd my lord.",
    prompts: ["HAMLET.\n", "My love is as a ", "Enter the KING", "JULIET.\nO "],
  },
  {
    model: "shakespeare-huge",
    name: "Shakespeare, the large one",
    prompt: "To be, or not to be",
    seed: 5,
    quote: "To be, or not to be called to the earth?",
    prompts: ["To be, or not to be", "ROMEO.\n", "Enter the GHOST", "Friends, Romans, "],
  },
  {
    model: "moby-dick",
    name: "Moby-Dick",
    prompt: "The whale ",
    seed: 4,
    quote: "The whale is nothing but the knife of standing it, very darkly darted on the sky of the whale.",
    prompts: ["The whale ", "Call me ", "The sea ", "CHAPTER 1"],
  },
  {
    model: "addition",
    name: "Addition",
    prompt: "12+34=",
    seed: 1,
    greedy: true,
    quote: "12+34=46\n57+68=125\n250+250=500",
    prompts: ["12+34=", "7+95=", "57+68=", "250+250="],
  },
  {
    model: "python",
    name: "Python",
    prompt: "def ",
    seed: 3,
    code: true,
    quote: 'def __iter(G, nodelist=None, seed=None):\n    """Create pairs of nodes are not adjacency matrix.',
    prompts: ["def ", "import ", "class ", "    return "],
  },
];

export function voiceOf(model: string): Voice | null {
  return VOICES.find((voice) => `${voice.model}.tinygpt` === model || voice.model === model) ?? null;
}
