"""`tinygpt serve`: models behind the OpenAI completions API. Tokens are bytes, here as everywhere."""
