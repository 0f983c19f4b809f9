"""One GPU on Modal; the run is on a volume, and a second call continues it."""

import subprocess
from pathlib import Path

import modal

app = modal.App("tinygpt")
image = modal.Image.debian_slim(python_version="3.12").pip_install("tinygpt[torch]")
volume = modal.Volume.from_name("tinygpt-runs", create_if_missing=True)
RUN = Path("/runs/huge-1")
NEW = ["--preset", "huge", "--out", str(RUN)]


@app.function(image=image, gpu="H100", volumes={"/runs": volume}, timeout=3600)
def train() -> None:
    what = ["--resume", str(RUN)] if RUN.exists() else NEW
    subprocess.run(["tinygpt", "train", *what, "--engine", "torch", "--device", "cuda", "--compile"], check=True)
    volume.commit()


@app.local_entrypoint()
def main() -> None:
    train.remote()
