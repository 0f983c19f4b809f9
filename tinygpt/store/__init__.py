"""What is kept: run folders, model files, bundled models, and how a model is named."""
