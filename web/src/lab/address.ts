// Which lab the address names: "#edit", "#edit=no-residual", "#edit&patch=…", "#mutant-03", "#derive=rmsnorm", "#write=rmsnorm", "#whatif", "#diverged=seed", "#homework=…".

export interface Named {
  lab: "list" | "edit" | "mutants" | "derive" | "write" | "whatif" | "diverged" | "homework";
  name: string; // an edit, a mutant, an op, a kernel, a run, a packed task; or nothing
  patch: string; // packed; or nothing
}

export function namedIn(hash: string): Named {
  const said = new URLSearchParams(hash.replace(/^#/, ""));
  const [first] = said.keys();
  const patch = said.get("patch") ?? "";
  if (first === "edit") return { lab: "edit", name: said.get("edit") ?? "", patch };
  if (first === "derive" || first === "write" || first === "whatif" || first === "diverged" || first === "homework")
    return { lab: first, name: said.get(first) ?? "", patch: "" };
  if (first === "mutants") return { lab: "mutants", name: "", patch: "" };
  if (first && /^mutant-\d\d$/.test(first)) return { lab: "mutants", name: first, patch: "" };
  return { lab: "list", name: "", patch: "" };
}
