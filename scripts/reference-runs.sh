#!/usr/bin/env bash
# The sweeps that the budget's law is fitted to, and that a run is compared with: docs/budget.md.
set -euo pipefail

if [[ $# -lt 1 || $1 == -* ]]; then
  cat >&2 <<'END'
usage: reference-runs.sh FOLDER [ENGINE FLAGS]     as in: reference-runs.sh runs/reference --engine webgpu

Makes the texts in FOLDER/texts, unless they are there, and a sweep per line below in FOLDER/sweeps. Called again, it goes on
with what is missing; PARTS="large xl" makes some of them. Then: python -m lab.law.reference table FOLDER/sweeps/*
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

# The default text: every size, short to long.
smaller() { sweep full shakespeare-full --over preset=tiny,small,medium --over steps=300,600,1200,2400,4800; }
large() {
  sweep full-large shakespeare-full --preset large --over steps=300,600,1200,2400,4800
  sweep full-batch-64 shakespeare-full --over preset=small,large --batch 64 --steps 300
}
xl() {
  sweep full-xl shakespeare-full --preset xl --over steps=150,300,600,1200,2000
  sweep full-batch-4 shakespeare-full --over preset=small,large --batch 4 --steps 4800
}
huge() {
  sweep full-huge shakespeare-full --preset huge --over steps=300,1200,4000
  sweep whole-huge-dropout "" --data shakespeare --preset huge --over steps=3000,6000 --whole-text
}

# Texts of a megabyte, which are read more than once.
nine_plays() {
  sweep nine shakespeare --over preset=tiny,small,medium,large --over steps=300,1200,2400,4800
  sweep nine-xl shakespeare --preset xl --over steps=300,1200
}
moby_dick() { sweep moby-dick moby-dick --over preset=small,medium,large --over steps=300,1200,2400; }

# Without tables, which short texts do not have: every size, and less text, read many times over. These were made with
# windows drawn at random.
plain=(--ngrams "" --windows random)
without_tables() {
  sweep whole shakespeare "${plain[@]}" --over preset=small,medium,large,tiny --over steps=300,600,1200,2400,4800
  sweep whole-xl shakespeare "${plain[@]}" --preset xl --over steps=150,300,600,1200,2000
  sweep whole-huge shakespeare "${plain[@]}" --preset huge --dropout 0 --over steps=150,300,600,1200
  sweep plain-full shakespeare-full "${plain[@]}" --over preset=small,medium,large,xl --over steps=2400
  sweep plain-dropout shakespeare "${plain[@]}" --over preset=medium,large --dropout 0.15 --steps 4800
  sweep plain-batch-64 shakespeare "${plain[@]}" --over preset=small,large --batch 64 --steps 300
  sweep plain-batch-4 shakespeare "${plain[@]}" --over preset=small,large --batch 4 --steps 4800
}
less_text() {
  sweep quarter shakespeare-quarter "${plain[@]}" --over preset=small,medium,large,tiny --over steps=600,2400
  sweep quarter-xl shakespeare-quarter "${plain[@]}" --preset xl --over steps=300,1200
  sweep quarter-dropout shakespeare-quarter "${plain[@]}" --over preset=medium,large,xl --dropout 0.15 --over steps=1200,2400
  sweep quarter-huge shakespeare-quarter "${plain[@]}" --preset huge --over dropout=0,0.15 --steps 300
  sweep plain-moby-dick moby-dick "${plain[@]}" --over preset=small,medium,large --over steps=300,1200,2400
  sweep moby-dick-quarter moby-dick-quarter "${plain[@]}" --over preset=small,large --over steps=300,1200
}

classic() { sweep classic shakespeare --recipe classic --over preset=tiny,small,medium,large,xl; }

all=(smaller large xl huge nine_plays moby_dick without_tables less_text classic)
read -ra wanted <<< "${PARTS:-${all[*]}}"
parts=()
for part in "${wanted[@]}"; do
  $part &
  parts+=($!)
done
for part in "${parts[@]}"; do wait "$part"; done
