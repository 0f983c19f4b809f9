#!/usr/bin/env bash
# The sweeps that the budget's law is fitted to, and that a run is compared with: docs/budget.md.
set -euo pipefail

if [[ $# -lt 1 || $1 == -* ]]; then
  cat >&2 <<'END'
usage: reference-runs.sh FOLDER [ENGINE FLAGS]     as in: reference-runs.sh runs/reference --engine webgpu

Makes the texts in FOLDER/texts, unless they are there, and a sweep per line below in FOLDER/sweeps. Called again, it goes on
with what is missing. Then: python -m lab.law.reference table FOLDER/sweeps/*
END
  exit 2
fi
folder=$1
shift
machine=("$@")
[[ -d $folder/texts ]] || python -m lab.law.reference texts "$folder/texts"
mkdir -p "$folder/sweeps"

# sweep NAME TEXT FLAGS...: the larger a validation, the less chance there is in its loss. Without a TEXT the flags
# name one, and validations are the recipe's.
sweep() {
  local out=$folder/sweeps/$1 flags=(--resume "$folder/sweeps/$1") text=()
  [[ -z $2 ]] || text=(--file "$folder/texts/$2.txt" --val-file "$folder/texts/$2.held-out.txt" --eval-batches 64)
  [[ -d $out ]] || flags=("${text[@]}" --out "$out" "${machine[@]}" "${@:3}")
  python -m tinygpt sweep --quiet "${flags[@]}" || echo "reference-runs: the sweep $1 has failed" >&2
}

# The default corpus: every size, short to long.
default_corpus() {
  sweep whole shakespeare --over preset=small,medium,large,tiny --over steps=300,600,1200,2400,4800
  sweep whole-xl shakespeare --preset xl --over steps=150,300,600,1200,2000
  sweep whole-huge shakespeare --preset huge --dropout 0 --over steps=150,300,600,1200
  sweep whole-huge-dropout "" --data shakespeare --preset huge --over steps=3000,6000 --whole-text
}

# Less of it: the text is read many times over. More of it: nothing is read twice.
other_sizes() {
  sweep quarter shakespeare-quarter --over preset=small,medium,large,tiny --over steps=600,2400
  sweep quarter-xl shakespeare-quarter --preset xl --over steps=300,1200
  sweep quarter-dropout shakespeare-quarter --over preset=medium,large,xl --dropout 0.15 --over steps=1200,2400
  sweep full shakespeare-full --over preset=small,medium,large,xl --over steps=2400
  sweep quarter-huge shakespeare-quarter --preset huge --over dropout=0,0.15 --steps 300
}

# Other batches for as many tokens; another text, on which the law is tried; the other recipe.
others() {
  sweep batch-64 shakespeare --over preset=small,large --batch 64 --steps 300
  sweep batch-4 shakespeare --over preset=small,large --batch 4 --steps 4800
  sweep moby-dick moby-dick --over preset=small,medium,large --over steps=300,1200,2400
  sweep moby-dick-quarter moby-dick-quarter --over preset=small,large --over steps=300,1200
  sweep dropout shakespeare --over preset=medium,large --dropout 0.15 --steps 4800
  sweep classic shakespeare --recipe classic --over preset=tiny,small,medium,large,xl
}

parts=()
for part in default_corpus other_sizes others; do
  $part &
  parts+=($!)
done
for part in "${parts[@]}"; do wait "$part"; done
