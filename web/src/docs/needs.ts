// What a console block says it needs, in the words of a remark (lab/learn/consoles.py knows the same marks).
export const NEEDS: Record<string, string> = {
  vulkan: "with a Vulkan driver",
  gpu: "with a GPU",
  network: "with a network",
  account: "with an account",
  minutes: "takes a while",
  "Ctrl-C": "until Ctrl-C",
};
